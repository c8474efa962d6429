# syntax=docker/dockerfile:1.7
# One image for every service: the command says which.  Built in two stages so that neither pip's
# cache nor a compiler ends up in it.

FROM python:3.13.7-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/tinymemory
WORKDIR /src
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY tinymemory tinymemory
COPY workers workers
COPY scheduler scheduler
RUN /opt/tinymemory/bin/pip install '.[workers,metrics,documents]'

FROM python:3.13.7-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /data --create-home tinymemory
COPY --from=build /opt/tinymemory /opt/tinymemory
ENV PATH=/opt/tinymemory/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TINYMEMORY_DATA_DIR=/data
# By number: an orchestrator that refuses root cannot look a name up.
USER 10001
WORKDIR /data
VOLUME /data
ENTRYPOINT ["tinymemory"]
CMD ["--help"]
