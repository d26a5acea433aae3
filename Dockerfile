# The image of IMQ: Debian's Python 3.13 without a shell, and IMQ in /opt/imq. docs/hosting/docker.md explains it.
# Tags name a Debian release; pin digests in your own copy if builds must be repeatable to the byte.

FROM debian:13-slim AS build
# Debian's own setuptools builds IMQ's package, so that nothing without a hash is downloaded. Versions are those of Debian 13.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends binutils ca-certificates python3-pip python3-setuptools python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
# An environment without pip; the final image has the same /usr/bin/python3.13.
RUN python3.13 -m venv --without-pip /opt/imq
# requirements-otlp.txt adds what exports traces.
ARG REQUIREMENTS=requirements.txt
COPY requirements.txt requirements-otlp.txt ./
RUN pip --python /opt/imq/bin/python install --no-cache-dir --no-deps --only-binary :all: \
        --require-hashes -r "$REQUIREMENTS"
COPY pyproject.toml README.md LICENSE app.yml ./
COPY bot bot
COPY notifications notifications
COPY queue_engine queue_engine
# Symbols for debuggers are a fifth of the environment. Libraries in *.libs keep theirs: they were patched after linking.
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /opt/imq/bin/python install --no-cache-dir --no-deps /wheels/*.whl \
    && find /opt/imq -name '*.cpython-*.so' -exec strip --strip-unneeded {} + \
    && mkdir /data

FROM gcr.io/distroless/python3-debian13:nonroot
LABEL org.opencontainers.image.title="IMQ" \
      org.opencontainers.image.description="The merge queue for GitHub that teams host themselves" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/imq /opt/imq
COPY --from=build --chown=65532:65532 /data /data
ENV PATH=/opt/imq/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PORT=8080 \
    IMQ_BIND=0.0.0.0 \
    DATABASE_URL=sqlite:////data/imq.db
WORKDIR /data
VOLUME /data
EXPOSE 8080
USER 65532:65532
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{os.environ[\"PORT\"]}/healthz', timeout=4)"]
ENTRYPOINT ["imq"]
CMD ["run"]
