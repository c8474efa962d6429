"""What happens by the clock: the beat, and the same round for a cron."""
