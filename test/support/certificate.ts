/** A self-signed certificate, as DER written by hand: Node can read them, and make none. RFC 5280, section 4.1. */
import type { KeyObject } from 'node:crypto'
import { createHash, generateKeyPairSync, sign } from 'node:crypto'

export interface MadeCertificate {
  readonly pem: string
  /** PKCS #8 in PEM. */
  readonly privateKey: string
  /** SHA-256 in hex. */
  readonly fingerprint: string
}

export function makeCertificate({
  host,
  from = new Date('2020-01-01T00:00:00Z'),
  to = new Date('2040-01-01T00:00:00Z'),
}: {
  host: string
  from?: Date
  to?: Date
}): MadeCertificate {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const algorithm = sequence(oid('2a864886f70d01010b'), tlv(0x05, Buffer.alloc(0))) // sha256WithRSAEncryption
  const name = sequence(tlv(0x31, sequence(oid('550403'), tlv(0x0c, Buffer.from(host)))))
  const names = sequence(oid('551d11'), tlv(0x04, sequence(tlv(0x82, Buffer.from(host)))))
  const tbs = sequence(
    tlv(0xa0, tlv(0x02, Buffer.from([2]))),
    tlv(0x02, Buffer.from([1])),
    algorithm,
    name,
    sequence(time(from), time(to)),
    name,
    publicKey.export({ format: 'der', type: 'spki' }),
    tlv(0xa3, sequence(names)),
  )
  const signature = sign('sha256', tbs, privateKey)
  const der = sequence(tbs, algorithm, tlv(0x03, Buffer.concat([Buffer.from([0]), signature])))
  return {
    pem: `-----BEGIN CERTIFICATE-----\n${der.toString('base64').replace(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`,
    privateKey: pemOf(privateKey),
    fingerprint: createHash('sha256').update(der).digest('hex'),
  }
}

export function pemOf(key: KeyObject): string {
  return key.export({ format: 'pem', type: key.type === 'public' ? 'spki' : 'pkcs8' }).toString()
}

function tlv(tag: number, ...content: readonly Buffer[]): Buffer {
  const body = Buffer.concat(content)
  const { length } = body
  const head =
    length < 0x80 ? [tag, length] : length < 0x100 ? [tag, 0x81, length] : [tag, 0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from(head), body])
}

const sequence = (...content: readonly Buffer[]) => tlv(0x30, ...content)
const oid = (hex: string) => tlv(0x06, Buffer.from(hex, 'hex'))
/** GeneralizedTime. */
const time = (at: Date) => tlv(0x18, Buffer.from(at.toISOString().replace(/[-:T]|\.\d+/g, '')))
