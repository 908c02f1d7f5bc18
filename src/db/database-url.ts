import { readFileSync, statSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import { InvalidConfiguration } from '../framework/errors.ts'
import { keyFileFault } from '../framework/key-file.ts'

export interface DatabaseUrl {
  /** Without the parameters that the driver does not know: it would send them on as server settings, and Postgres refuses. */
  url: string
  options: { host?: string; port?: number; ssl?: false | 'prefer' | ConnectionOptions }
  prepare: boolean | undefined
}

/** What libpq or other drivers understand in a URL and ours has no use for. */
const FOREIGN_PARAMETERS = ['channel_binding', 'gssencmode', 'pgbouncer', 'connection_limit', 'pool_timeout', 'schema']

/**
 * Reads a `postgres://` URL as libpq does: TLS by `sslmode`, `sslrootcert`, `sslcert` and `sslkey`, a socket by `host`.
 *
 * `sslmode=require` encrypts and trusts any certificate, as libpq's does; `verify-ca` and `verify-full` check it. With
 * `sslrootcert` it is always checked.
 * Source: https://www.postgresql.org/docs/current/libpq-ssl.html
 */
export function readDatabaseUrl(text: string): DatabaseUrl {
  if (text === '') throw invalid('nothing: neither the option database nor DATABASE_URL is given')
  const mark = text.indexOf('?')
  const base = mark < 0 ? text : text.slice(0, mark)
  const parameters = new URLSearchParams(mark < 0 ? '' : text.slice(mark + 1))
  if (!/^postgres(ql)?:\/\//.test(base)) throw invalid()

  const take = (name: string): string | undefined => {
    const value = parameters.get(name) ?? undefined
    parameters.delete(name)
    return value
  }
  for (const name of FOREIGN_PARAMETERS) parameters.delete(name)
  const host = take('host')
  const port = take('port')
  const prepare = take('prepare')
  const rootCertificate = take('sslrootcert')
  const system = rootCertificate === 'system' // the authorities that Node trusts; implies verify-full
  const mode = take('sslmode') ?? take('ssl') ?? (system ? 'verify-full' : undefined)
  const ssl = tlsOf(mode, {
    ...given('ca', system ? undefined : rootCertificate),
    ...given('cert', take('sslcert')),
    ...given('key', take('sslkey')),
  })
  const rest = parameters.size > 0 ? `?${parameters}` : ''

  // The driver replaces a list of hosts by its first before it parses; so do we, to see whether it can.
  if (!URL.canParse(base.replace(/(\/\/(?:[^/@]*@)?[^/,]*),[^/]*/, '$1'))) throw invalid()
  return {
    url: `${base}${rest}`,
    options: {
      ...given('host', host),
      ...given('port', port === undefined ? undefined : Number(port)),
      ...given('ssl', ssl),
    },
    prepare: prepare === undefined ? undefined : prepare === 'true',
  }
}

const given = <Key extends string, Value>(key: Key, value: Value | undefined): { [K in Key]?: Value } =>
  (value === undefined ? {} : { [key]: value }) as { [K in Key]?: Value }

function tlsOf(
  mode: string | undefined,
  files: { ca?: string; cert?: string; key?: string },
): DatabaseUrl['options']['ssl'] {
  if (files.key !== undefined) refuseOpenKey(files.key)
  const read = Object.entries(files).map(([part, path]) => [part, certificate(path)])
  const identity = Object.fromEntries(read) as { ca?: string; cert?: string; key?: string }
  const checked = { ...identity, rejectUnauthorized: true }
  switch (mode) {
    case undefined:
      return files.ca === undefined ? undefined : checked
    case 'disable':
    case 'false':
      return false
    case 'allow':
    case 'prefer':
      return 'prefer'
    case 'true':
    case 'require':
      return files.ca === undefined ? { ...identity, rejectUnauthorized: false } : { ...checked, ...ANY_HOST_NAME }
    case 'verify-ca':
      return { ...checked, ...ANY_HOST_NAME }
    case 'verify-full':
      return checked
    default:
      throw wrong(
        'database (sslmode)',
        'disable, allow, prefer, require, verify-ca or verify-full',
        JSON.stringify(mode),
      )
  }
}

/** The certificate must be signed by the authority; whose name it bears does not matter. */
const ANY_HOST_NAME = { checkServerIdentity: () => undefined }

function refuseOpenKey(path: string): void {
  const file = statSync(path, { throwIfNoEntry: false })
  const fault = file === undefined ? null : keyFileFault(file, process.getuid?.())
  if (fault !== null) throw wrong('database (sslkey)', 'a private key that is ours alone', `${path}, which ${fault}`)
}

function certificate(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    throw wrong('database (sslrootcert, sslcert, sslkey)', 'a readable PEM file', path)
  }
}

/** Does not quote the URL: it may hold a password. */
const invalid = (received = 'a text that is no such URL') =>
  wrong(
    'database',
    'a URL such as postgres://user:password@host:5432/name, with special characters percent-encoded',
    received,
  )

const wrong = (key: string, expected: string, received: string) =>
  new InvalidConfiguration([{ key, expected, received }])
