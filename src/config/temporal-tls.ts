/**
 * TLS to Temporal by the environment, in the names of Temporal's own command line. The files are read once, when the process
 * starts. Rule: docs/behaviour/workers.md, "The connection to Temporal".
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import type { ConfigurationProblem } from '../framework/errors.ts'
import { keyFileFault } from '../framework/key-file.ts'
import { errorLine } from '../framework/logger.ts'
import { shown } from './received.ts'

/** As both of the SDK's connections take it, client and worker. */
export interface TemporalTls {
  /** The certificate that we show, and its key: the bytes of PEM files. */
  readonly clientCertPair?: { readonly crt: Uint8Array; readonly key: Uint8Array }
  /** The authority that has signed the server's certificate: a PEM file. Default: those that the system trusts. */
  readonly serverRootCACertificate?: Uint8Array
  /** The name that the server's certificate must bear. Default: the host of the address. */
  readonly serverNameOverride?: string
}

type Environment = Readonly<Record<string, string | undefined>>

const SWITCH = 'TEMPORAL_TLS'
const CERTIFICATE = 'TEMPORAL_TLS_CLIENT_CERT_PATH'
const KEY = 'TEMPORAL_TLS_CLIENT_KEY_PATH'
const AUTHORITY = 'TEMPORAL_TLS_SERVER_CA_CERT_PATH'
const SERVER_NAME = 'TEMPORAL_TLS_SERVER_NAME'

/**
 * @param problems gets every fault of the files
 * @returns undefined where no variable says anything about TLS
 */
export function temporalTlsOf(
  environment: Environment,
  problems: ConfigurationProblem[],
): boolean | TemporalTls | undefined {
  const on = switchOf(environment[SWITCH])
  // Off wins over files that are there, as with Temporal's own command line; they are not even read.
  if (on === false) return false
  const read = (name: string, kind: PemKind): Buffer | undefined => {
    const path = environment[name] || undefined
    return path === undefined ? undefined : pemFile(name, path, kind, problems)
  }
  const crt = read(CERTIFICATE, CERTIFICATES)
  const key = read(KEY, PRIVATE_KEY)
  const authority = read(AUTHORITY, CERTIFICATES)
  const serverName = environment[SERVER_NAME] || undefined
  for (const [one, other] of [
    [CERTIFICATE, KEY],
    [KEY, CERTIFICATE],
  ] as const)
    if (environment[one] && !environment[other])
      problems.push({ key: other, expected: `a path, as ${one} has one`, received: 'nothing' })
  if (crt !== undefined && key !== undefined && !belongTogether(crt, key))
    problems.push({
      key: KEY,
      expected: `the key of the certificate in ${CERTIFICATE}`,
      received: 'the key of another',
    })
  const tls: TemporalTls = {
    ...(crt === undefined || key === undefined ? {} : { clientCertPair: { crt, key } }),
    ...(authority === undefined ? {} : { serverRootCACertificate: authority }),
    ...(serverName === undefined ? {} : { serverNameOverride: serverName }),
  }
  return Object.keys(tls).length > 0 ? tls : on
}

/** When the certificate that we show is valid no longer; null: we show none, or it can't be read, as the SDK will say. */
export function certificateEnd(tls: boolean | TemporalTls | undefined): Date | null {
  const crt = typeof tls === 'object' ? tls.clientCertPair?.crt : undefined
  if (crt === undefined) return null
  try {
    return new Date(new X509Certificate(crt).validTo)
  } catch {
    return null
  }
}

/** What does not read as a switch is a problem that the variables' own check tells. */
function switchOf(text: string | undefined): boolean | undefined {
  const values: Readonly<Record<string, boolean>> = { true: true, '1': true, false: false, '0': false }
  return text === undefined ? undefined : values[text]
}

interface PemKind {
  readonly name: string
  /** @throws when the file holds another kind */
  readonly check: (pem: Buffer) => unknown
}

const CERTIFICATES: PemKind = { name: 'certificate', check: (pem) => new X509Certificate(pem) }
const PRIVATE_KEY: PemKind = { name: 'private key', check: (pem) => createPrivateKey(pem) }

function pemFile(variable: string, path: string, kind: PemKind, problems: ConfigurationProblem[]): Buffer | undefined {
  const fault = (received: string): undefined => {
    problems.push({ key: variable, expected: `the path of a PEM file with a ${kind.name}`, received })
  }
  let pem: Buffer
  try {
    const mode = kind === PRIVATE_KEY ? keyFileFault(statSync(path), process.getuid?.()) : null
    if (mode !== null) return fault(`${shown(path)}, which ${mode}`)
    pem = readFileSync(path)
  } catch (error) {
    return fault(`${shown(path)}, which can't be read: ${errorLine(error, 200)}`)
  }
  // The SDK wants text; Node would take the binary form of a certificate, too.
  if (!pem.includes('-----BEGIN ')) return fault(`${shown(path)}, which is no PEM file`)
  try {
    kind.check(pem)
  } catch (error) {
    return fault(`${shown(path)}, which holds none: ${errorLine(error, 200)}`)
  }
  return pem
}

function belongTogether(certificate: Buffer, key: Buffer): boolean {
  return new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key))
}
