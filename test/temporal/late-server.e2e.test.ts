/** A Temporal server that comes after those who ask for it. */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { expect, it, vi } from 'vitest'
import { checkTemporal, closeClient, lazyClient } from '../../src/temporal/connection.ts'
import { shareDevServer } from '../support/dev-server.ts'
import { SOON } from '../support/soon.ts'

it('is found by the client that has missed it', async () => {
  const server = await shareDevServer()
  const [host, port] = server.address.split(':')
  const door = createServer((socket) => {
    const behind = connect(Number(port), host)
    socket.pipe(behind).pipe(socket)
    socket.on('error', () => behind.destroy())
    behind.on('error', () => socket.destroy())
  })
  door.listen(0, '127.0.0.1')
  await once(door, 'listening')
  const { port: doorPort } = door.address() as { port: number }
  door.close()
  await once(door, 'close')

  const where = { address: `127.0.0.1:${doorPort}`, namespace: 'default' }
  const client = lazyClient(where)
  try {
    await expect(checkTemporal(client, where)).rejects.toThrow(/Temporal/)
    door.listen(doorPort, '127.0.0.1')
    await once(door, 'listening')
    await vi.waitFor(() => checkTemporal(client, where), SOON)
  } finally {
    await closeClient(client)
    door.close()
    await server.release()
  }
})
