/**
 * The variables that stand for no key and no option. From here come their checks and docs/configuration.md.
 * Rule: docs/behaviour/configuration.md, "Options".
 */

import type { ValueKind } from './value-kinds.ts'
import { bool, oneOf } from './value-kinds.ts'

export interface Variable {
  readonly default: string
  readonly meaning: string
  /** What is allowed; null where somebody else checks it, or nothing can be wrong. */
  readonly kind: ValueKind<string> | ValueKind<boolean> | null
}

export const VARIABLES: Readonly<Record<string, Variable>> = {
  INTEGRATIONS_ENCRYPTION_KEYS_FILE: {
    default: '',
    meaning: 'path of a file with the encryption keys, in place of `INTEGRATIONS_ENCRYPTION_KEYS`; not both',
    kind: null,
  },
  INTEGRATIONS_CONFIG: {
    default: '`integrations.config.ts`, `.js` or `.mjs` in the working directory',
    meaning: "path of the host's module, for API, worker and the command line",
    kind: null,
  },
  TEMPORAL_TLS: {
    default: '`true` where one of the files or an API key is given, else `false`',
    meaning: 'whether the connection to Temporal is encrypted',
    kind: bool(),
  },
  TEMPORAL_TLS_CLIENT_CERT_PATH: {
    default: '',
    meaning: 'path of the PEM file with the certificate that we show to Temporal; with its key',
    kind: null,
  },
  TEMPORAL_TLS_CLIENT_KEY_PATH: {
    default: '',
    meaning: 'path of the PEM file with the key of that certificate, without a passphrase',
    kind: null,
  },
  TEMPORAL_TLS_SERVER_CA_CERT_PATH: {
    default: 'the authorities that the system trusts',
    meaning: "path of a PEM file with the authority that has signed Temporal's certificate",
    kind: null,
  },
  TEMPORAL_TLS_SERVER_NAME: {
    default: 'the host of the address',
    meaning: "the name that Temporal's certificate must bear",
    kind: null,
  },
  INTEGRATIONS_WORKFLOW_BUNDLE: {
    default: 'the one that the package brings, where the host has no `workflowsPath`',
    meaning: 'path of a bundle made by `integrations bundle-workflows`, for workers',
    kind: null,
  },
  NODE_ENV: { default: '', meaning: '`production` refuses the option `dev`', kind: null },
  HOST: { default: '`127.0.0.1`', meaning: 'address on which the API process listens', kind: null },
  PORT: {
    default: '`3000`',
    meaning: 'port on which the API process listens, from 0 (a free one) to 65535',
    kind: null,
  },
  API_DRAIN_SECONDS: {
    default: '`1`',
    meaning: 'how long the API process still takes requests after SIGTERM, while `/readyz` answers 503; from 0 to 3600',
    kind: null,
  },
  LOG_LEVEL: {
    default: '`info`; `warn` for the command line',
    meaning: 'from which level up the built-in logger writes',
    kind: oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
  },
  LOG_STREAM: {
    default: '`stdout`; `stderr` for the command line',
    meaning: 'where the built-in logger writes',
    kind: oneOf('stdout', 'stderr'),
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    default: '',
    meaning: 'where traces are sent, such as `http://collector:4318`; API and worker processes trace where it is set',
    kind: null,
  },
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: {
    default: '`OTEL_EXPORTER_OTLP_ENDPOINT`, with `/v1/traces`',
    meaning: 'the same, of traces alone: the whole address',
    kind: null,
  },
  OTEL_EXPORTER_OTLP_PROTOCOL: {
    default: '`http/protobuf`',
    meaning: 'how they are sent; no other is spoken',
    kind: null,
  },
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: {
    default: '`OTEL_EXPORTER_OTLP_PROTOCOL`',
    meaning: 'the same, of traces alone',
    kind: null,
  },
  OTEL_TRACES_EXPORTER: { default: '`otlp`', meaning: '`none`: no traces', kind: null },
  OTEL_SDK_DISABLED: { default: '`false`', meaning: '`true`: no traces', kind: null },
}
