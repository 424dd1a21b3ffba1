# receiptd for amd64 and arm64; `--target simulator` builds the simulated App Store. For both machines at once:
#
#   docker buildx build --platform linux/amd64,linux/arm64 --tag registry.example.com/receiptd:0.1.0 --push .

FROM swift:6.3.1-bookworm AS build
# Debian removes replaced versions from its archive, so the release is pinned and its packages are not.
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install -y --no-install-recommends libpq-dev libcurl4-openssl-dev pkg-config \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /src
# Package.swift names the version of every dependency; Package.resolved of the clone, if it has one, its commit too.
COPY Package.swift Package.resolved* ./
COPY Sources ./Sources
COPY Tests ./Tests
COPY docs/openapi.yaml docs/runbooks.md ./docs/
# The build folder stays in the builder's cache, one for each kind of machine, so a small change rebuilds little.
ARG TARGETARCH
# `receiptd --version` shows it: --build-arg RECEIPTD_COMMIT=$(git rev-parse --short=12 HEAD). Without it the program is
# a development build.
ARG RECEIPTD_COMMIT
RUN --mount=type=cache,id=receiptd-build-$TARGETARCH,target=/src/.build,sharing=locked \
  swift build -c release --static-swift-stdlib --product receiptd \
  && swift build -c release --static-swift-stdlib --product appstore-simulator \
  && mkdir -p /out/bin /out/share \
  && cp .build/release/receiptd .build/release/appstore-simulator /out/bin/ \
  && cp Package.resolved /out/share/ \
  # Keeps symbol names, so that backtraces are readable.
  && strip --strip-debug /out/bin/*
COPY config /out/app/config
COPY migrations /out/app/migrations
# The images work as any user, whatever the umask of the clone.
RUN chmod -R u=rwX,go=rX /out

FROM debian:12.12-slim AS runtime
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install -y --no-install-recommends libpq5 libcurl4 ca-certificates curl \
  && rm -rf /var/lib/apt/lists/*
# The user `nobody` by number, so that an orchestrator can check that it is not root.
USER 65534:65534
WORKDIR /app

FROM runtime AS simulator
COPY --from=build /out/bin/appstore-simulator /usr/local/bin/
COPY --from=build /out/app/config ./config
# A volume that is mounted here gets this owner: receiptd runs as the same user and reads the keys.
USER 0:0
RUN install -d -m 755 -o 65534 -g 65534 /authority
USER 65534:65534
EXPOSE 4000
ENTRYPOINT ["appstore-simulator"]

FROM runtime AS receiptd
COPY --from=build /out/bin/receiptd /usr/local/bin/
# `docker run --rm receiptd version --dependencies` lists it.
COPY --from=build /out/share/Package.resolved /usr/local/share/receiptd/
COPY --from=build /out/app ./
# Every container of its networks reaches these ports. docker-compose.yml shows how to keep port 3001 from the proxy in front.
ENV HOST=0.0.0.0 ADMIN_HOST=0.0.0.0 ADMIN_PORT=3001
EXPOSE 3000 3001
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["sh", "-c", "exec curl -fsS -o /dev/null http://$ADMIN_HOST:$ADMIN_PORT/healthz"]
ENTRYPOINT ["receiptd"]
CMD ["serve"]
