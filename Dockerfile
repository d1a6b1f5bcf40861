# Portico without root, for a read-only file system. docs/operations.md says how to run it.

FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m venv /opt/portico
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY portico portico
COPY resolvers resolvers
COPY loaders loaders
COPY schema schema
COPY gateway gateway
# The lock constrains the versions. It also lists tools for development, which are not installed.
RUN /opt/portico/bin/pip install --no-cache-dir --disable-pip-version-check --constraint requirements.lock ".[otel]" \
    && /opt/portico/bin/portico --version

FROM python:3.11-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin portico
COPY --from=build /opt/portico /opt/portico
ENV PATH=/opt/portico/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PORTICO_PRODUCTION=true \
    PORTICO_GRAPHIQL=off \
    PORTICO_LOG_FORMAT=json \
    PORTICO_ADMIN_ADDRESS=0.0.0.0:9000
USER 10001
EXPOSE 8000 9000
STOPSIGNAL SIGTERM
# An unhealthy container may be restarted, so this asks whether the process lives. Load balancers ask /readyz.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/livez', timeout=3)"]
ENTRYPOINT ["portico"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000"]
