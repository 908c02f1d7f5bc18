import { X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { isIP } from 'node:net'
import type { ConnectionOptions, SecureContext } from 'node:tls'
import { createSecureContext } from 'node:tls'
import { isDeepStrictEqual } from 'node:util'
import { InvalidConfiguration } from '../framework/errors.ts'
import { keyFileFault } from '../framework/key-file.ts'

export interface DatabaseUrl {
  /** Without the parameters that the driver does not know: it would send them on as server settings, and Postgres refuses. */
  url: string
  options: {
    host?: string | string[]
    port?: number | number[]
    ssl?: false | 'prefer' | ConnectionOptions
    target_session_attrs?: 'read-write'
  }
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
  const [host, port] = [take('host'), take('port')]
  const servers = serversOf(host ?? /\/\/(?:[^/@]*@)?([^/]*)/.exec(base)?.[1] ?? '', port)
  // The driver would part an IPv6 address at its colons.
  const isListed = servers.length > 1 || isIP(servers[0]?.host ?? '') === 6
  const prepare = take('prepare')
  const rootCertificate = take('sslrootcert')
  const system = rootCertificate === 'system' // the authorities that Node trusts; implies verify-full
  const mode = take('sslmode') ?? take('ssl') ?? (system ? 'verify-full' : undefined)
  const ssl = tlsOf(mode, {
    ...given('ca', system ? undefined : rootCertificate),
    ...given('cert', take('sslcert')),
    ...given('key', take('sslkey')),
  })
  // Of several servers the first that answers may be a standby.
  const isAnyHost = servers.length === 1 || parameters.has('target_session_attrs')
  const rest = parameters.size > 0 ? `?${parameters}` : ''

  // The driver replaces a list of hosts by its first before it parses; so do we, to see whether it can.
  if (!URL.canParse(base.replace(/(\/\/(?:[^/@]*@)?[^/,]*),[^/]*/, '$1'))) throw invalid()
  return {
    url: `${base}${rest}`,
    options: {
      ...given('host', isListed ? servers.map((server) => server.host) : host),
      ...given('port', isListed ? servers.map((server) => server.port) : port === undefined ? undefined : Number(port)),
      ...given('ssl', ssl),
      ...given('target_session_attrs', isAnyHost ? undefined : ('read-write' as const)),
    },
    prepare: prepare === undefined ? undefined : prepare === 'true',
  }
}

/** Each server has its own port, or that of the parameter `port`, which may be a list as long as that of the hosts; else 5432. */
function serversOf(
  hosts: string,
  ports: string | undefined,
): readonly { readonly host: string; readonly port: number }[] {
  const listed = ports?.split(',') ?? []
  return hosts.split(',').map((server, at, { length }) => {
    const [, address, name, own] =
      /^(?:\[(.+)\]|([^:]*))(?::(\d+))?$/.exec(isIP(server) === 6 ? `[${server}]` : server) ?? []
    const host = address ?? name
    const port = Number(own ?? listed[listed.length > 1 ? at : 0] ?? 5432)
    if (host === undefined || !(port > 0) || (listed.length > 1 && listed.length !== length))
      throw invalid('hosts and ports that do not belong together')
    return { host, port }
  })
}

const given = <Key extends string, Value>(key: Key, value: Value | undefined): { [K in Key]?: Value } =>
  (value === undefined ? {} : { [key]: value }) as { [K in Key]?: Value }

function tlsOf(
  mode: string | undefined,
  files: { ca?: string; cert?: string; key?: string },
): DatabaseUrl['options']['ssl'] {
  if (files.key !== undefined) refuseOpenKey(files.key)
  const checked = withFiles({ rejectUnauthorized: true }, files)
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
      return files.ca === undefined
        ? withFiles({ rejectUnauthorized: false }, files)
        : withFiles({ rejectUnauthorized: true, ...ANY_HOST_NAME }, files)
    case 'verify-ca':
      return withFiles({ rejectUnauthorized: true, ...ANY_HOST_NAME }, files)
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

/**
 * The files are read again for each connection: certificates are renewed in place. A certificate and its key are not replaced in the same
 * moment, and the driver does not stand what TLS refuses: until they are whole again, the last ones serve.
 */
function withFiles(options: ConnectionOptions, files: Readonly<Record<string, string>>): ConnectionOptions {
  if (Object.keys(files).length === 0) return options
  let context: SecureContext
  let texts: Record<string, string> | undefined
  const renew = (): void => {
    const now = Object.fromEntries(Object.entries(files).map(([part, path]) => [part, readFileSync(path, 'utf8')]))
    if (isDeepStrictEqual(now, texts)) return
    // TLS itself would take any text for an authority, and then trust none.
    if (now.ca !== undefined) new X509Certificate(now.ca)
    context = createSecureContext(now)
    texts = now
  }
  try {
    renew()
  } catch {
    const expected = 'readable PEM files, and the key of the certificate'
    throw wrong('database (sslrootcert, sslcert, sslkey)', expected, Object.values(files).join(', '))
  }
  const get = (): SecureContext => {
    try {
      renew()
    } catch {
      // They are being replaced, or gone.
    }
    return context
  }
  return Object.defineProperty(options, 'secureContext', { enumerable: true, get })
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
