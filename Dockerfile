# The image of API, worker and command line: this package, built, with the example host. docs/deploying.md says how a host of
# your own gets in, and what of this file was checked. Needs BuildKit (COPY --chmod), Docker's builder since version 23.
#
#   docker build --tag durable-integrations:local .

# Debian, not Alpine: Temporal's core (@temporalio/core-bridge) is a native module for glibc.
ARG NODE_IMAGE=node:22.23.2-bookworm-slim

# What runs: the locked packages without those of development.
FROM ${NODE_IMAGE} AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# What the adapters of Stripe and GitHub take beside, which a host of the npm package installs itself; the lock has the versions.
RUN node -e "const file = 'package.json', json = JSON.parse(fs.readFileSync(file)); for (const name of ['@octokit/rest', 'stripe', 'universal-github-app-jwt']) json.dependencies[name] = json.peerDependencies[name]; delete json.devDependencies; fs.writeFileSync(file, JSON.stringify(json))"
# No package's own install script runs: what the programs need comes ready in the packages.
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund
# The core's other platforms, 110 MB of 140.
RUN find node_modules/@temporalio/core-bridge/releases -mindepth 1 -maxdepth 1 ! -name "$(uname -m)-unknown-linux-gnu" -exec rm -r {} +
# A host below this folder with a package.json of its own finds the package by its name; so does a shell the command.
RUN ln -s .. node_modules/durable-integrations && ln -s ../../dist/bin/integrations.js node_modules/.bin/integrations

# What is built, with the packages of development.
FROM ${NODE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY src src
RUN npm run build
RUN chmod 755 dist/bin/integrations.js

FROM ${NODE_IMAGE}
LABEL org.opencontainers.image.title="Durable Integrations" \
      org.opencontainers.image.description="Self-hosted integrations framework: API, worker and command line" \
      org.opencontainers.image.licenses="MIT"
WORKDIR /app
ENV NODE_ENV=production \
    NODE_OPTIONS=--enable-source-maps \
    UV_THREADPOOL_SIZE=32 \
    PATH=/app/node_modules/.bin:$PATH \
    HOST=0.0.0.0 \
    PORT=3000 \
    INTEGRATIONS_CONFIG=examples/host/integrations.config.ts
COPY --from=packages /app/node_modules node_modules
COPY --from=build /app/dist dist
# For everybody to read, also out of a checkout that is its owner's only (umask 077).
COPY --chmod=755 package.json LICENSE ./
COPY --chmod=755 drizzle drizzle
COPY --chmod=755 examples/host examples/host
# The files are root's and nothing is written to them; what is transient goes to /tmp.
USER node
EXPOSE 3000
# Of the API, which is what runs unless another command is given; docker-compose.yml has the worker's. For another command by
# hand turn it off: `docker run --no-healthcheck`.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=6 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/operator/api/v1/healthz`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# No init is needed: no process of ours starts another, and each handles SIGTERM itself.
CMD ["node", "dist/bin/api.js"]
