"""E-mail, by the standard library: the headers people read, the body, the names of attachments."""

from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default

from tinymemory.documents.convert.html import html_document
from tinymemory.documents.converted import Converted
from tinymemory.documents.raw import ConversionLimits, DocumentError, RawDocument

_SHOWN = ("From", "To", "Cc", "Date", "Subject")


def convert_mail(raw: RawDocument, limits: ConversionLimits) -> Converted:
    """One message; of its alternatives the plain one."""
    message = message_from_bytes(raw.data, policy=default)
    if not message.keys():
        raise DocumentError(f"{raw.label}: the file is no e-mail message")
    headers = [f"{name}: {message[name]}" for name in _SHOWN if message[name]]
    attachments = [part.get_filename() or "unnamed" for part in message.iter_attachments()]
    parts = ["\n".join(headers), _body(message).strip()]
    if attachments:
        parts.append("Attachments: " + ", ".join(attachments))
    return Converted(
        "\n\n".join(filter(None, parts)) + "\n", title=str(message["Subject"] or "").strip() or None
    )


def _body(message: EmailMessage) -> str:
    part = message.get_body(preferencelist=("plain", "html"))
    if part is None:
        return ""
    try:
        content = part.get_content()
    except (LookupError, UnicodeError):
        payload = part.get_payload(decode=True)
        content = payload.decode("utf-8", errors="replace") if isinstance(payload, bytes) else ""
    return html_document(content).text if part.get_content_type() == "text/html" else str(content)
