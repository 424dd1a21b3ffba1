# receiptd; `--target simulator` builds the simulated App Store.

FROM swift:6.2-bookworm AS build
RUN apt-get update \
  && apt-get install -y --no-install-recommends libpq-dev libcurl4-openssl-dev pkg-config \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY Package.swift ./
RUN swift package resolve
COPY Sources ./Sources
COPY Tests ./Tests
COPY docs/openapi.yaml ./docs/
RUN swift build -c release --static-swift-stdlib --product receiptd \
  && swift build -c release --static-swift-stdlib --product appstore-simulator \
  && mkdir /out \
  && cp "$(swift build -c release --show-bin-path)"/receiptd "$(swift build -c release --show-bin-path)"/appstore-simulator /out/

FROM debian:bookworm-slim AS runtime
RUN apt-get update \
  && apt-get install -y --no-install-recommends libpq5 libcurl4 ca-certificates curl \
  && rm -rf /var/lib/apt/lists/*
# The user `nobody` by number, so that an orchestrator can check that it is not root.
USER 65534:65534
WORKDIR /app

FROM runtime AS simulator
COPY --from=build /out/appstore-simulator /usr/local/bin/
COPY config ./config
EXPOSE 4000
ENTRYPOINT ["appstore-simulator"]

FROM runtime AS receiptd
COPY --from=build /out/receiptd /usr/local/bin/
COPY config ./config
COPY migrations ./migrations
# Only the proxy in front reaches these ports of the container.
ENV HOST=0.0.0.0 ADMIN_HOST=0.0.0.0
EXPOSE 3000 3001
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD curl -fsS http://127.0.0.1:3001/healthz || exit 1
ENTRYPOINT ["receiptd"]
CMD ["serve"]
