/** A process' way out while a rehearsal is played: nothing but one database. */
import childProcess from 'node:child_process'
import dgram from 'node:dgram'
import dns from 'node:dns'
import { once } from 'node:events'
import http from 'node:http'
import net from 'node:net'
import tls from 'node:tls'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { NetworkOff } from '../../src/rehearsal/network-off.ts'
import { networkOff } from '../../src/rehearsal/network-off.ts'
import { makeCertificate } from '../support/certificate.ts'

/** Stands for Postgres: keeps what it gets. */
let server: net.Server
let got: Buffer[] = []
let arrived: () => void = () => {}
let port: number
let network: NetworkOff

beforeAll(async () => {
  server = net.createServer((socket) =>
    socket
      .on('error', () => {})
      .on('data', (data) => {
        got.push(data)
        arrived()
      }),
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  port = (server.address() as net.AddressInfo).port
})

afterAll(() => void server.close())

beforeEach(() => {
  got = []
  network = networkOff({ servers: [{ host: '127.0.0.1', port }], path: null, database: 'scratch' })
})

afterEach(() => network.restore())

function startup(parameters: Readonly<Record<string, string>>): Buffer {
  const text = `${Object.entries(parameters).flat().join('\0')}\0\0`
  const message = Buffer.alloc(8 + text.length)
  message.writeUInt32BE(message.length, 0)
  message.writeUInt32BE(0x30000, 4)
  message.write(text, 8)
  return message
}

/** What becomes of a connection whose first message is this one. */
async function first(message: Buffer | string): Promise<'sent' | string> {
  const socket = net.connect({ host: '127.0.0.1', port })
  const sent = new Promise<'sent'>((resolve) => {
    arrived = () => resolve('sent')
  })
  const refused = once(socket, 'error').then(([error]) => (error as Error).message)
  await once(socket, 'connect')
  socket.write(message)
  return Promise.race([sent, refused]).finally(() => socket.destroy())
}

describe('the network of a rehearsal', () => {
  it('reaches its database', async () => {
    expect(await first(startup({ user: 'me', database: 'scratch' }))).toBe('sent')
    expect(network.take()).toEqual([])
  })

  it.each([
    ['another database of the same server', startup({ user: 'me', database: 'live' }), 'the database live'],
    ['a database that has the name of the user', startup({ user: 'live' }), 'the database live'],
    ['another protocol', 'GET / HTTP/1.1\r\nHost: live\r\n\r\n', 'something beside Postgres'],
  ])('does not reach %s, and sends it nothing', async (_, message, named) => {
    expect(await first(message)).toContain(`${named} on the server of the copy was refused`)
    expect(network.take()).toEqual([`${named} on the server of the copy`])
    expect(got).toEqual([])
  })

  it('lets a session ask for encryption, and reads the message after it', async () => {
    const asks = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])
    expect(await first(asks)).toBe('sent')
    expect(await first(Buffer.concat([asks]))).toBe('sent')
    const socket = net.connect({ host: '127.0.0.1', port })
    await once(socket, 'connect')
    socket.write(asks)
    const refused = once(socket, 'error')
    socket.write(startup({ user: 'me', database: 'live' }))
    expect(String(await refused)).toContain('the database live')
  })

  it.each([
    ['live', 'the database live'],
    ['scratch', null],
  ])('reads the message of an encrypted session, too: %s', async (database, refused) => {
    const { privateKey: key, pem: cert } = makeCertificate({ host: 'scratch.example' })
    const secure = tls.createServer({ key, cert })
    const read = once(secure, 'secureConnection').then(([session]) => once(session as tls.TLSSocket, 'data'))
    const plain = net.createServer((socket) =>
      socket.once('data', () => {
        socket.write('S')
        secure.emit('connection', socket)
      }),
    )
    plain.listen(0, '127.0.0.1')
    await once(plain, 'listening')
    network.restore()
    const { port: at } = plain.address() as net.AddressInfo
    network = networkOff({ servers: [{ host: '127.0.0.1', port: at }], path: null, database: 'scratch' })
    const socket = net.connect({ host: '127.0.0.1', port: at })
    await once(socket, 'connect')
    socket.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]))
    await once(socket, 'data')
    const session = tls.connect({ socket, rejectUnauthorized: false })
    await once(session, 'secureConnect')
    const failed = once(session, 'error').then(([error]) => (error as Error).message)
    session.write(startup({ user: 'me', database }))
    const end = await Promise.race([read.then(() => null), failed])
    if (refused === null) expect(end).toBeNull()
    else expect(end).toContain(`${refused} on the server of the copy was refused`)
    session.destroy()
    plain.close()
  })

  it.each<[string, () => Promise<unknown>]>([
    ['fetch', () => fetch('http://127.0.0.1:8099/')],
    ['http', () => once(http.get('http://127.0.0.1:8099/'), 'response')],
    ['a socket by port', () => once(net.connect(9), 'connect')],
    ['a socket by path', () => once(net.connect('/nowhere.sock'), 'connect')],
    ['a look-up', () => dns.promises.lookup('provider.example')],
    ['a resolver', () => new dns.promises.Resolver().resolve4('provider.example')],
  ])('refuses %s', async (_, ask) => {
    const error = await ask().catch((thrown: unknown) => thrown as Error)
    const words = [error, (error as Error).cause].map(String).join(' ')
    expect(words).toContain('A rehearsal has no network')
    expect(network.take()).toHaveLength(1)
  })

  it('refuses datagrams and programs', () => {
    const socket = dgram.createSocket('udp4')
    expect(() => socket.send('x', 9, '127.0.0.1')).toThrow('a datagram was refused')
    socket.close()
    expect(() => childProcess.execFileSync('curl', ['http://127.0.0.1'])).toThrow('the program curl was refused')
    expect(() => childProcess.spawn('curl -s x', { shell: true })).toThrow('the program curl was refused')
    expect(network.take()).toHaveLength(3)
  })

  it('is on again after', async () => {
    network.restore()
    expect(await first('anything')).toBe('sent')
  })
})
