/**
 * The variables that stand for no key and no option. From here come their checks and docs/configuration.md.
 * Rule: docs/behaviour/configuration.md, "Options".
 */

import type { ValueKind } from './value-kinds.ts'
import { bool, oneOf } from './value-kinds.ts'

export interface Variable {
  readonly default: string
  readonly meaning: string
  /** What is allowed; null where the code that uses it checks it, or nothing can be wrong. */
  readonly kind: ValueKind<string> | ValueKind<boolean> | null
}

export const VARIABLES: Readonly<Record<string, Variable>> = {
  INTEGRATIONS_ENCRYPTION_KEYS_FILE: variable(
    'path of a file with the encryption keys, in place of `INTEGRATIONS_ENCRYPTION_KEYS`; not both',
  ),
  INTEGRATIONS_CONFIG: variable(
    "path of the host's module, for API, worker and the command line",
    '`integrations.config.ts`, `.js` or `.mjs` in the working directory',
  ),
  TEMPORAL_TLS: variable(
    'whether the connection to Temporal is encrypted',
    '`true` where one of the files or an API key is given, else `false`',
    bool(),
  ),
  TEMPORAL_TLS_CLIENT_CERT_PATH: variable(
    'path of the PEM file with the certificate that we show to Temporal; with its key',
  ),
  TEMPORAL_TLS_CLIENT_KEY_PATH: variable('path of the PEM file with the key of that certificate, without a passphrase'),
  TEMPORAL_TLS_SERVER_CA_CERT_PATH: variable(
    "path of a PEM file with the authority that has signed Temporal's certificate",
    'the authorities that the system trusts',
  ),
  TEMPORAL_TLS_SERVER_NAME: variable("the name that Temporal's certificate must bear", 'the host of the address'),
  INTEGRATIONS_WORKFLOW_BUNDLE: variable(
    'path of a bundle made by `integrations bundle-workflows`, for workers',
    'the one that the package brings, where the host has no `workflowsPath`',
  ),
  NODE_ENV: variable('`production` refuses the option `dev`'),
  HOST: variable('address on which the API process listens', '`127.0.0.1`'),
  PORT: variable('port on which the API process listens, from 0 (a free one) to 65535', '`3000`'),
  API_DRAIN_SECONDS: variable(
    'how long the API process still takes requests after SIGTERM, while `/readyz` answers 503; from 0 to 3600',
    '`1`',
  ),
  LOG_LEVEL: variable(
    'from which level up the built-in logger writes',
    '`info`; `warn` for the command line',
    oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
  ),
  LOG_STREAM: variable(
    'where the built-in logger writes',
    '`stdout`; `stderr` for the command line',
    oneOf('stdout', 'stderr'),
  ),
  OTEL_EXPORTER_OTLP_ENDPOINT: variable(
    'where traces are sent, such as `http://collector:4318`; API and worker processes trace where it is set',
  ),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: variable(
    'the same, of traces alone: the whole address',
    '`OTEL_EXPORTER_OTLP_ENDPOINT`, with `/v1/traces`',
  ),
  OTEL_EXPORTER_OTLP_PROTOCOL: variable('how they are sent; no other is spoken', '`http/protobuf`'),
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: variable('the same, of traces alone', '`OTEL_EXPORTER_OTLP_PROTOCOL`'),
  OTEL_TRACES_EXPORTER: variable('`none`: no traces', '`otlp`'),
  OTEL_SDK_DISABLED: variable('`true`: no traces', '`false`'),
}

function variable(meaning: string, fallback = '', kind: Variable['kind'] = null): Variable {
  return { default: fallback, meaning, kind }
}
