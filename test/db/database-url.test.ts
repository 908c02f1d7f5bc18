import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import postgres from 'postgres'
import { describe, expect, it } from 'vitest'
import { readDatabaseUrl } from '../../src/db/database-url.ts'
import { makeCertificate } from '../support/certificate.ts'

const authority = join(mkdtempSync(join(tmpdir(), 'authority-')), 'ca.pem')
writeFileSync(authority, makeCertificate({ host: 'h' }).pem)
const trusted = { secureContext: expect.any(Object) }
const anyName = { checkServerIdentity: expect.any(Function) }

describe('a database URL', () => {
  it.each([
    ['', undefined],
    ['?sslmode=disable', false],
    ['?sslmode=allow', 'prefer'],
    ['?sslmode=prefer', 'prefer'],
    ['?sslmode=require', { rejectUnauthorized: false }],
    ['?ssl=true', { rejectUnauthorized: false }],
    ['?sslmode=verify-ca', { rejectUnauthorized: true, ...anyName }],
    ['?sslmode=verify-full', { rejectUnauthorized: true }],
    ['?sslrootcert=system', { rejectUnauthorized: true }],
    [`?sslrootcert=${authority}`, { rejectUnauthorized: true, ...trusted }],
    [`?sslmode=require&sslrootcert=${authority}`, { rejectUnauthorized: true, ...trusted, ...anyName }],
    [`?sslmode=verify-full&sslrootcert=${authority}`, { rejectUnauthorized: true, ...trusted }],
  ])('with %j says how TLS is done', (query, ssl) => {
    expect(readDatabaseUrl(`postgres://u:p@h/db${query}`)).toMatchObject({
      url: 'postgres://u:p@h/db',
      options: ssl === undefined ? {} : { ssl },
    })
  })

  it('keeps what the driver and Postgres know, and drops what is for other drivers', () => {
    const { url } = readDatabaseUrl(
      'postgres://u:p@h/db?pgbouncer=true&channel_binding=require&application_name=ours&target_session_attrs=read-write',
    )
    expect(url).toBe('postgres://u:p@h/db?application_name=ours&target_session_attrs=read-write')
  })

  it('may say whether statements have names', () => {
    expect(readDatabaseUrl('postgres://h/db').prepare).toBeUndefined()
    expect(readDatabaseUrl('postgres://h/db?prepare=true').prepare).toBe(true)
    expect(readDatabaseUrl('postgres://h/db?prepare=false').prepare).toBe(false)
  })

  it('may lead to a socket', () => {
    const { options } = readDatabaseUrl('postgresql:///db?host=/var/run/postgresql&port=5433')
    expect(options).toEqual({ host: '/var/run/postgresql', port: 5433 })
  })

  it.each([
    'postgres://u:p@[fd00::5]:6432/db',
    'postgres:///db?host=fd00::5&port=6432',
    'postgres:///db?host=[fd00::5]&port=6432',
  ])('may name an IPv6 address: %s', (url) => {
    const { options } = readDatabaseUrl(url)
    expect(options).toEqual({ host: ['fd00::5'], port: [6432] })
    const { options: read } = postgres(url, options as object)
    expect({ host: read.host, port: read.port }).toEqual({ host: ['fd00::5'], port: [6432] })
  })

  it('has certificates that may be renewed in place: each connection reads them again, and takes them when they are whole', () => {
    const folder = mkdtempSync(join(tmpdir(), 'renewed-'))
    const [ca, cert, key] = ['ca.pem', 'client.pem', 'client.key'].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ]
    const [first, second] = [makeCertificate({ host: 'client' }), makeCertificate({ host: 'client' })]
    const keep = (path: string, text: string): void => writeFileSync(path, text, { mode: 0o600 })
    keep(ca, first.pem)
    keep(cert, first.pem)
    keep(key, first.privateKey)
    const { options } = readDatabaseUrl(`postgres://h/db?sslrootcert=${ca}&sslcert=${cert}&sslkey=${key}`)
    // As the driver makes its own of them: https://github.com/porsager/postgres/blob/v3.4.9/src/connection.js
    const ofConnection = () => (Object.assign({}, options.ssl) as { secureContext: unknown }).secureContext
    const old = ofConnection()
    expect(ofConnection()).toBe(old)
    // The certificate before its key.
    keep(cert, second.pem)
    expect(ofConnection()).toBe(old)
    keep(key, second.privateKey)
    const renewed = ofConnection()
    expect(renewed).not.toBe(old)
    // Half a file.
    for (const [path, text] of [
      [ca, second.pem],
      [cert, first.pem],
      [key, first.privateKey],
    ] as const) {
      keep(path, text.slice(0, 300))
      expect(ofConnection()).toBe(renewed)
      rmSync(path)
      expect(ofConnection()).toBe(renewed)
      keep(path, path === ca ? first.pem : path === cert ? second.pem : second.privateKey)
    }
  })

  it.each<[string, string[], number[]]>([
    ['postgres://u:p@one:1,two:2/db', ['one', 'two'], [1, 2]],
    ['postgres://one:5433,two/db', ['one', 'two'], [5433, 5432]],
    ['postgres://u:p@[::1]:1,[::2]/db', ['::1', '::2'], [1, 5432]],
    ['postgres://one,[::2]:5433/db', ['one', '::2'], [5432, 5433]],
    ['postgres:///db?host=one,two&port=5433,5434', ['one', 'two'], [5433, 5434]],
    ['postgres:///db?host=one,::2&port=6432', ['one', '::2'], [6432, 6432]],
  ])('may name several hosts: %s', (given, host, port) => {
    const { url, options } = readDatabaseUrl(given)
    // Migrations go over a client of the driver's: it looks for the primary itself.
    expect(options).toEqual({ host, port, target_session_attrs: 'read-write' })
    const { options: read } = postgres(url, options as object)
    expect({ host: read.host, port: read.port }).toEqual({ host, port })
    const any = readDatabaseUrl(`${given}${given.includes('?') ? '&' : '?'}target_session_attrs=any`)
    expect(any.options).toEqual({ host, port })
  })

  it.each([
    'mysql://u:open-sesame@h/db',
    'u:open-sesame@h/db',
    'postgres://u:open-sesame@h:port/db',
    'postgres://u:open-sesame@one,two/db?port=1,2,3',
    'postgres://u:open-sesame@one,two:x/db',
    'postgres://u:open-sesame@h/db?sslmode=sometimes',
    'postgres://u:open-sesame@h/db?sslrootcert=/no/such/file',
    `postgres://u:open-sesame@h/db?sslrootcert=${fileURLToPath(import.meta.url)}`,
  ])('that is none is refused without being repeated', (url) => {
    const refused = (() => {
      try {
        return readDatabaseUrl(url)
      } catch (error) {
        return error
      }
    })()
    expect(refused).toMatchObject({ code: 'invalid_configuration' })
    expect(String(refused) + JSON.stringify(refused)).not.toContain('open-sesame')
  })
})
