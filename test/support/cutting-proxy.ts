/** Stands between us and Postgres, and cuts the links that go through it, as a pooler or a network does that goes away. */
import type { AddressInfo, Socket } from 'node:net'
import { connect, createServer } from 'node:net'

export interface CuttingProxy {
  /** The given URL, by way of the proxy. */
  readonly url: string
  /** How many links are open. */
  readonly links: number
  /** Ends a share of the links, some in order (FIN), some not (RST). @param share 1: all of them */
  cut(share?: number): void
  /** Lets nothing through any more, and ends nothing: the other side has vanished. */
  fallSilent(): void
  close(): Promise<void>
}

export async function startCuttingProxy(databaseUrl: string): Promise<CuttingProxy> {
  const to = new URL(databaseUrl)
  const links = new Set<{ near: Socket; far: Socket }>()
  const server = createServer((near) => {
    const far = connect(Number(to.port), to.hostname)
    const link = { near, far }
    links.add(link)
    near.pipe(far)
    far.pipe(near)
    for (const socket of [near, far]) {
      socket.on('error', () => {})
      socket.on('close', () => {
        near.destroy()
        far.destroy()
        links.delete(link)
      })
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: Object.assign(new URL(databaseUrl), { host: `127.0.0.1:${port}` }).href,
    get links() {
      return links.size
    },
    cut(share = 1) {
      for (const { near, far } of links) {
        if (Math.random() > share) continue
        if (Math.random() < 0.5) near.resetAndDestroy()
        else near.end()
        far.destroy()
      }
    },
    fallSilent() {
      for (const { near, far } of links) {
        near.unpipe(far)
        far.unpipe(near)
        near.resume()
        far.resume()
      }
    },
    async close() {
      for (const { near } of links) near.destroy()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}
