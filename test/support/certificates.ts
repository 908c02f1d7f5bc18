/** An authority and what it has signed, made by openssl for one test: a server's certificate and a client's. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Certificates {
  readonly folder: string
  /** Paths of PEM files. */
  readonly authority: string
  readonly server: { readonly certificate: string; readonly key: string }
  readonly client: { readonly certificate: string; readonly key: string }
}

/** @param serverName the one name that the server's certificate bears */
export function makeCertificates(serverName: string): Certificates {
  const folder = mkdtempSync(join(tmpdir(), 'certificates-'))
  const at = (name: string): string => join(folder, name)
  const openssl = (...args: string[]): void => {
    execFileSync('openssl', args, { stdio: 'pipe' })
  }
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  openssl(
    'req',
    '-x509',
    ...newKey,
    '-keyout',
    at('ca.key'),
    '-out',
    at('ca.pem'),
    '-days',
    '2',
    '-subj',
    '/CN=test ca',
  )
  const signed = (name: string, subject: string, extensions: string): { certificate: string; key: string } => {
    const [key, request, certificate] = [at(`${name}.key`), at(`${name}.csr`), at(`${name}.pem`)]
    writeFileSync(at(`${name}.ext`), extensions)
    openssl('req', ...newKey, '-keyout', key, '-out', request, '-subj', `/CN=${subject}`)
    const by = ['-CA', at('ca.pem'), '-CAkey', at('ca.key'), '-CAcreateserial', '-extfile', at(`${name}.ext`)]
    openssl('x509', '-req', '-in', request, ...by, '-out', certificate, '-days', '2')
    return { certificate, key }
  }
  return {
    folder,
    authority: at('ca.pem'),
    server: signed('server', serverName, `subjectAltName=DNS:${serverName}\nextendedKeyUsage=serverAuth\n`),
    client: signed('client', 'worker', 'extendedKeyUsage=clientAuth\n'),
  }
}
