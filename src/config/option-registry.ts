/**
 * The options of `createIntegrations()` that are no keys, and the variables that stand for neither: exact name, kind, default, meaning, and the variable that gives
 * the default. One registry, from which come the checks and docs/configuration.md.
 * Rule: docs/behaviour/configuration.md, "Options".
 */
import { z } from 'zod'
import { EGRESS_RULE, parseEgressRule } from '../egress/address-rules.ts'
import { isRecord } from '../framework/json.ts'
import { isUnnamed } from './model-names.ts'
import type { ValueKind } from './value-kinds.ts'
import { anyString, bool, hasUserInfo, int, isHttpUrl, oneOf } from './value-kinds.ts'

export interface Option extends ValueKind<unknown> {
  /** For the reader of the page; the value itself is chosen where the option is used. */
  readonly default: string
  readonly meaning: string
  /** Gives the default. Empty counts as unset. */
  readonly variable: string | null
}

const MAX_CONNECTIONS = 262_143 // the largest max_connections that Postgres takes
const MAX_IDLE_SECONDS = 2_147_483 // Node's timers hold 2^31-1 milliseconds
const MAX_SCHEMA_BYTES = 63 // a name in Postgres
/** A list of names in the environment is split at commas and white space. */
const MIDDLEWARE_NAME = /^[A-Za-z][\w.-]{0,63}$/

const MODEL_METHODS = ['of', 'find', 'findMany', 'create', 'update', 'scan']
const LOGGER_METHODS = ['debug', 'info', 'warn', 'error']

/** By name; a dot parts a group and its field. */
export const OPTIONS = {
  database: option(
    masked('string', 'a URL such as postgres://user:password@host:5432/name, or a postgres.js client', isDatabase),
    'Postgres 14 or newer. Of a client the settings are taken, never its connections',
    { variable: 'DATABASE_URL' },
  ),
  schema: option(
    given('string', `a name of 1 to ${MAX_SCHEMA_BYTES} bytes`, isSchemaName),
    'Postgres schema of our tables',
    { fallback: '`public`' },
  ),
  'pool.max': option(
    int(1, MAX_CONNECTIONS),
    'connections of each of our two large pools at most; the three small ones have up to 9 in all',
    { fallback: '10' },
  ),
  'pool.idleSeconds': option(
    int(0, MAX_IDLE_SECONDS),
    'seconds after which an unused connection is closed; 0 = never',
    { fallback: '60' },
  ),
  'pool.statementSeconds': option(
    int(0, MAX_IDLE_SECONDS),
    'seconds after which a statement without an answer fails and its connection is closed; 0 = never',
    { fallback: '60' },
  ),
  'temporal.address': option(
    given('string', 'a host, or host:port such as localhost:7233', isHost),
    'where Temporal is',
    {
      variable: 'TEMPORAL_ADDRESS',
      fallback: '`localhost:7233`',
    },
  ),
  'temporal.namespace': option(given('string', 'a string that is not empty', isText), "Temporal's namespace", {
    variable: 'TEMPORAL_NAMESPACE',
    fallback: '`default`',
  }),
  'temporal.apiKey': option(
    masked('string', 'visible ASCII characters, such as those of a token', isToken),
    'for Temporal Cloud, or a cluster that asks for keys; turns TLS on',
    { variable: 'TEMPORAL_API_KEY' },
  ),
  'temporal.tls': option(
    masked(
      'bool or object',
      'true, false or an object of clientCertPair {crt, key} and serverRootCACertificate, the bytes of PEM files, and serverNameOverride',
      isTls,
    ),
    'TLS, with a certificate of our own where it asks for one; in place of all variables `TEMPORAL_TLS…`',
    { fallback: 'what the variables `TEMPORAL_TLS…` say, else true with an API key, else false' },
  ),
  encryptionKeys: option(
    masked('string or list', 'a string or a list of strings', () => true), // read, and judged, by the key ring
    '`kid:base64,…`, 32 bytes each; the first writes, all read',
    { variable: 'INTEGRATIONS_ENCRYPTION_KEYS' },
  ),
  baseUrl: option(
    { ...anyString(), allowed: 'an absolute http(s) URL without user info, query and fragment', schema: baseUrl() },
    'where the API is reached from outside, such as `https://api.example.com`; a slash at its end is trimmed',
    { variable: 'INTEGRATIONS_BASE_URL' },
  ),
  dev: option(
    bool(),
    'makes an operator token from the key ring and logs the address that signs a browser in with it; refused where `NODE_ENV` is `production`',
    {
      variable: 'INTEGRATIONS_DEV',
      fallback: 'false',
    },
  ),
  'egress.allow': option(
    egressRules(),
    'what calls may reach though its address is not public, or though it is asked by http',
    { fallback: '`[]`' },
  ),
  'egress.deny': option(egressRules(), 'what calls never reach; wins over `egress.allow`', { fallback: '`[]`' }),
  'egress.proxy': option(
    masked('string', 'an absolute http(s) URL', (value) => typeof value === 'string' && isHttpUrl(value)),
    "proxy that calls go through; the environment's proxies are ignored",
  ),
  config: option(
    given('object', 'an object', () => true),
    'the keys; see the sections',
  ), // read by the keys' own checks
  providers: option(
    given('object', 'an object of provider identifiers and providers', isRecord),
    'providers by identifier; also under `config.providers`, but not both for one name',
    { fallback: '{}' },
  ),
  models: option(models(), "the host's models by the name stored in `internal_type`, which is their `type`", {
    fallback: '{}',
  }),
  handledBy: option(
    masked('object', 'an object of provider identifiers and { webhooks?, items? }', isRecord), // judged by forwarding/target.ts
    "where a provider's deliveries and items are handled outside of our worker; see docs/behaviour/forwarding.md",
    { fallback: '{}' },
  ),
  middleware: option(
    named('an object of names and middleware', isFunction, 'a function (context, next) => …', MIDDLEWARE_NAME),
    'Hono middleware by name, for `webhook.middleware` and the like; adds to the built-in ones, or replaces one',
    { fallback: '{}' },
  ),
  logger: option(
    given('object', `an object with the functions ${LOGGER_METHODS.join(', ')}`, (logger) =>
      hasMethods(logger, LOGGER_METHODS),
    ),
    'where log lines go: `(fields, message)`',
    { fallback: 'JSON lines on stdout, from `LOG_LEVEL` up' },
  ),
  clock: option(
    given('object', 'an object with the function now', (clock) => hasMethods(clock, ['now'])),
    'where the time comes from',
    { fallback: "the machine's" },
  ),
} as const satisfies Record<string, Option>

/** The names that `createIntegrations()` takes. */
export const OPTION_NAMES: ReadonlySet<string> = new Set(Object.keys(OPTIONS).map((name) => name.replace(/\..*/, '')))

function option(
  kind: ValueKind<unknown>,
  meaning: string,
  { variable = null, fallback = '' }: { variable?: string | null; fallback?: string } = {},
): Option {
  return { ...kind, meaning, variable, default: fallback }
}

function given(type: string, allowed: string, isAllowed: (value: unknown) => boolean): ValueKind<unknown> {
  return { type, allowed, schema: z.custom(isAllowed), fromText: (text) => text, secret: false }
}

function masked(type: string, allowed: string, isAllowed: (value: unknown) => boolean): ValueKind<unknown> {
  return { ...given(type, allowed, isAllowed), secret: true }
}

/** Names and values of one sort. */
function named(
  allowed: string,
  isAllowed: (value: unknown) => boolean,
  expected: string,
  pattern: RegExp | null = null,
): ValueKind<unknown> {
  const schema = z.custom<Record<string, unknown>>(isRecord).superRefine((values, context) => {
    for (const [name, value] of Object.entries(values)) {
      if (pattern !== null && !pattern.test(name))
        context.addIssue({
          code: 'custom',
          path: [name],
          message: `a name that matches ${pattern.source}`,
          params: { received: name },
        })
      else if (!isAllowed(value)) context.addIssue({ code: 'custom', path: [name], message: expected })
    }
  })
  return { ...given('object', allowed, isRecord), schema }
}

/**
 * Each under its own type: rows hold that, and commands and listings look a model up by the name. A model without a type gets the name
 * as its type, so that it has one name only.
 */
function models(): ValueKind<unknown> {
  const kind = named('an object of names and models', isModel, `a model, with a type and ${MODEL_METHODS.join(', ')}`)
  const schema = (kind.schema as z.ZodType<Record<string, unknown>>).superRefine((values, context) => {
    const types = new Map<object, string>()
    for (const [name, model] of Object.entries(isRecord(values) ? values : {})) {
      if (!isModel(model)) continue
      const type = isUnnamed(model) ? (types.get(model) ?? name) : model.type
      types.set(model, type)
      if (type !== name)
        context.addIssue({
          code: 'custom',
          path: [name],
          message: `the model under its own type, which is ${JSON.stringify(type)}`,
          params: { received: name },
        })
    }
  })
  return { ...kind, schema }
}

function egressRules(): ValueKind<unknown> {
  const rule = z.string({ error: EGRESS_RULE }).refine((text) => parseEgressRule(text) !== null, { error: EGRESS_RULE })
  return { ...given('list', `a list, each ${EGRESS_RULE}`, Array.isArray), schema: z.array(rule) }
}

/** Kept as it is written but for the slash: providers compare redirect addresses letter by letter. */
function baseUrl(): z.ZodType<string> {
  return z
    .string()
    .refine((text) => isHttpUrl(text) && /^https?:\/\/[^/?#@]+(\/[^?#]*)?$/i.test(text) && !hasUserInfo(text))
    .overwrite((text) => text.replace(/\/+$/, ''))
}

function isDatabase(value: unknown): boolean {
  // A postgres.js client is a function with settings.
  return typeof value === 'string' || (isFunction(value) && 'options' in value && isRecord(value.options))
}

function isSchemaName(value: unknown): boolean {
  if (typeof value !== 'string' || value.includes('\0')) return false
  const bytes = Buffer.byteLength(value)
  return bytes >= 1 && bytes <= MAX_SCHEMA_BYTES
}

function isHost(value: unknown): boolean {
  return typeof value === 'string' && /^[^\s/@]+$/.test(value)
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== ''
}

/** It travels in a header: what a file's last line break would end is refused here, with its name. */
function isToken(value: unknown): boolean {
  return typeof value === 'string' && /^[\x21-\x7e]+$/.test(value)
}

function isTls(value: unknown): boolean {
  if (typeof value === 'boolean') return true
  if (!isRecord(value)) return false
  const { clientCertPair: pair, serverRootCACertificate: authority, serverNameOverride: name, ...unknown } = value
  return (
    Object.keys(unknown).length === 0 &&
    (pair === undefined || (isRecord(pair) && pair.crt instanceof Uint8Array && pair.key instanceof Uint8Array)) &&
    (authority === undefined || authority instanceof Uint8Array) &&
    (name === undefined || isText(name))
  )
}

function isModel(value: unknown): value is { readonly type: string } {
  return hasMethods(value, MODEL_METHODS) && 'type' in value && isText(value.type)
}

function hasMethods(value: unknown, names: readonly string[]): value is object {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false
  return names.every((name) => isFunction((value as Record<string, unknown>)[name]))
}

function isFunction(value: unknown): value is (...args: unknown[]) => unknown {
  return typeof value === 'function'
}

export interface Variable {
  readonly default: string
  readonly meaning: string
  /** What is allowed; null where the code that uses it checks it, or nothing can be wrong. */
  readonly kind: ValueKind<string> | ValueKind<boolean> | null
}

/** The variables that stand for no key and no option. From here come their checks and docs/configuration.md. */
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
  INTEGRATIONS_LOCAL_COMMANDS: variable(
    'JSON `{"integrations", "temporal", "psql"}`: the commands that the doctor names in place of `integrations`, `temporal` and `psql "$DATABASE_URL"`; `npm start` sets it',
  ),
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
