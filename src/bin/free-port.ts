import { createServer } from 'node:net'

/** A port of the loopback interface that nothing listens on: the preferred one if it is free. */
export async function freePort(preferred = 0, host = '127.0.0.1'): Promise<number> {
  const server = createServer()
  try {
    return await new Promise<number>((resolve, reject) => {
      server.once('error', reject)
      server.listen(preferred, host, () => resolve((server.address() as { port: number }).port))
    })
  } catch (error) {
    if (preferred !== 0) return await freePort(0, host)
    throw error
  } finally {
    server.close()
  }
}
