# syntax=docker/dockerfile:1
# The Leasehold server: docs/deploying.md says how to run it. The last stage runs no command, so that an image for another
# architecture needs no emulator: what it copies is JavaScript.
ARG NODE_VERSION=24

# The package, as it is published.
FROM --platform=$BUILDPLATFORM node:${NODE_VERSION}-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json LICENSE ./
COPY scripts scripts
COPY src src
RUN npm run build && mkdir packed && npm pack --ignore-scripts --pack-destination packed && mv packed/*.tgz packed/leasehold.tgz

# The package and the clients of the stores that are wanted. SQLite, Redis, etcd and HTTP need none.
FROM --platform=$BUILDPLATFORM node:${NODE_VERSION}-slim AS install
ARG CLIENTS="pg@8"
WORKDIR /opt/leasehold
COPY --from=build /build/packed/leasehold.tgz /packed/
RUN npm install --ignore-scripts --no-audit --no-fund --no-package-lock /packed/leasehold.tgz ${CLIENTS} && mkdir -p /state/leasehold

FROM node:${NODE_VERSION}-slim
LABEL org.opencontainers.image.title="Leasehold" \
      org.opencontainers.image.description="Locks held on a lease, over HTTP" \
      org.opencontainers.image.source="https://github.com/leasehold/leasehold" \
      org.opencontainers.image.documentation="https://github.com/leasehold/leasehold/blob/main/docs/deploying.md" \
      org.opencontainers.image.licenses="MIT"
ENV NODE_ENV=production \
    PATH=/opt/leasehold/node_modules/.bin:$PATH \
    LEASEHOLD_STATE_DIR=/var/lib/leasehold
COPY --from=install /opt/leasehold /opt/leasehold
COPY deploy/healthcheck.mjs /opt/leasehold/
# The user `node` of the base image, by number: Kubernetes must see that it is not root.
COPY --from=install --chown=1000:1000 /state/ /var/lib/
WORKDIR /var/lib/leasehold
USER 1000:1000
EXPOSE 7411
# Calls under way have 10 s to end, and the store 10 s to close: stop with a grace of 30 s.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["node", "/opt/leasehold/healthcheck.mjs"]
ENTRYPOINT ["leasehold"]
# Other machines are answered only with tokens: without LEASEHOLD_TOKENS the server refuses to start.
CMD ["serve", "--host", "0.0.0.0"]
