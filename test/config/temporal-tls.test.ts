import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { certificateEnd, temporalTlsOf } from '../../src/config/temporal-tls.ts'
import type { ConfigurationProblem } from '../../src/framework/errors.ts'
import { makeCertificate } from '../support/certificate.ts'
import type { Certificates } from '../support/certificates.ts'
import { makeCertificates } from '../support/certificates.ts'

const CERTIFICATE = 'TEMPORAL_TLS_CLIENT_CERT_PATH'
const KEY = 'TEMPORAL_TLS_CLIENT_KEY_PATH'
const AUTHORITY = 'TEMPORAL_TLS_SERVER_CA_CERT_PATH'
const SERVER_NAME = 'TEMPORAL_TLS_SERVER_NAME'

let files: Certificates
beforeAll(() => {
  files = makeCertificates('temporal.test')
  writeFileSync(join(files.folder, 'text.pem'), 'no certificate\n')
  writeFileSync(join(files.folder, 'broken.pem'), '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n')
})
afterAll(() => rmSync(files.folder, { recursive: true, force: true }))

function tlsOf(environment: Record<string, string>) {
  const problems: ConfigurationProblem[] = []
  return { tls: temporalTlsOf(environment, problems), problems }
}

describe('TLS to Temporal by the environment', () => {
  it.each([
    [{}, undefined],
    [{ TEMPORAL_TLS: '' }, undefined],
    [{ TEMPORAL_TLS: 'true' }, true],
    [{ TEMPORAL_TLS: '1' }, true],
    [{ TEMPORAL_TLS: 'false' }, false],
    [{ [SERVER_NAME]: 'temporal.test' }, { serverNameOverride: 'temporal.test' }],
    // Off wins, and the files are not read.
    [{ TEMPORAL_TLS: 'false', [CERTIFICATE]: '/nowhere' }, false],
  ])('%j: %j', (environment, expected) => {
    expect(tlsOf(environment as Record<string, string>)).toEqual({ tls: expected, problems: [] })
  })

  it('is what the files hold', () => {
    const { certificate, key } = files.client
    expect(tlsOf({ [CERTIFICATE]: certificate, [KEY]: key, [AUTHORITY]: files.authority })).toEqual({
      tls: {
        clientCertPair: { crt: readFileSync(certificate), key: readFileSync(key) },
        serverRootCACertificate: readFileSync(files.authority),
      },
      problems: [],
    })
  })

  it.each<[what: string, environment: () => Record<string, string>, key: string, received: RegExp]>([
    [
      'a file that is not there',
      () => ({ [AUTHORITY]: '/nowhere/ca.pem' }),
      AUTHORITY,
      /nowhere.*can't be read.*ENOENT/,
    ],
    ['a folder', () => ({ [AUTHORITY]: files.folder }), AUTHORITY, /can't be read.*EISDIR/],
    ['a file that is no PEM', () => ({ [AUTHORITY]: join(files.folder, 'text.pem') }), AUTHORITY, /is no PEM file/],
    ['a PEM that holds nothing', () => ({ [AUTHORITY]: join(files.folder, 'broken.pem') }), AUTHORITY, /holds none/],
    ['a certificate without its key', () => ({ [CERTIFICATE]: files.client.certificate }), KEY, /^nothing$/],
    ['a key without its certificate', () => ({ [KEY]: files.client.key }), CERTIFICATE, /^nothing$/],
    [
      'the key of another certificate',
      () => ({ [CERTIFICATE]: files.client.certificate, [KEY]: files.server.key }),
      KEY,
      /the key of another/,
    ],
    [
      'a certificate where the key belongs',
      () => ({ [CERTIFICATE]: files.client.certificate, [KEY]: files.client.certificate }),
      KEY,
      /holds none/,
    ],
  ])('refuses %s', (_, environment, key, received) => {
    const { problems } = tlsOf(environment())
    expect(problems).toEqual([{ key, expected: expect.any(String), received: expect.stringMatching(received) }])
  })
})

describe('the end of the client certificate', () => {
  const pairOf = (pem: string) => ({ clientCertPair: { crt: Buffer.from(pem), key: Buffer.from('') } })
  const to = new Date('2031-06-01T12:00:00Z')

  it.each([
    ['is its own', pairOf(makeCertificate({ host: 'worker.test', to }).pem), to],
    ['is not known of bytes that hold none', pairOf('no certificate'), null],
    ['is none without one', { serverNameOverride: 'temporal.test' }, null],
    ['is none without an object', true, null],
    ['is none without TLS', undefined, null],
  ])('%s', (_, tls, end) => {
    expect(certificateEnd(tls)).toEqual(end)
  })
})
