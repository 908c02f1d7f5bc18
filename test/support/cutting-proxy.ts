/** Stands between us and a backend, and cuts the links that go through it, as a pooler or a network does that goes away. */
import type { AddressInfo, Socket } from 'node:net'
import { connect, createServer } from 'node:net'
import { Transform } from 'node:stream'

export interface CuttingProxy {
  /** The given URL, by way of the proxy. */
  readonly url: string
  /** How many links are open. */
  readonly links: number
  /** Ends a share of the links, some in order (FIN), some not (RST). @param share 1: all of them */
  cut(share?: number): void
  /** Lets nothing through any more, and ends nothing: the other side has vanished. */
  fallSilent(): void
  /** Ends all links (`spared`: lets them be), and each new one at once, until the returned function is called. */
  refuse(which?: 'spared'): () => void
  /** Lets nothing through until the returned function is called; what was sent meanwhile comes late. */
  holdUp(): () => void
  /** Lets what is sent come this much late, each way, in order, until the returned function is called. */
  slowDown(ms: number): () => void
  close(): Promise<void>
}

interface Link {
  readonly near: Socket
  readonly far: Socket
  /** What passes on its way to either of them. */
  readonly toFar: Transform
  readonly toNear: Transform
}

/** @param backendUrl with a host and a port */
export async function startCuttingProxy(backendUrl: string): Promise<CuttingProxy> {
  const to = new URL(backendUrl)
  const links = new Set<Link>()
  let isRefusing = false
  let isHeldUp = false
  let lateMs = 0
  const cut = (share = 1): void => {
    for (const { near, far } of links) {
      if (Math.random() > share) continue
      if (Math.random() < 0.5) near.resetAndDestroy()
      else near.end()
      far.destroy()
    }
  }
  const server = createServer((near) => {
    if (isRefusing) {
      near.resetAndDestroy()
      return
    }
    const far = connect(Number(to.port), to.hostname)
    const link: Link = { near, far, toFar: delay(() => lateMs), toNear: delay(() => lateMs) }
    link.toFar.pipe(far)
    link.toNear.pipe(near)
    links.add(link)
    if (!isHeldUp) join(link)
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
    url: Object.assign(new URL(backendUrl), { host: `127.0.0.1:${port}` }).href,
    get links() {
      return links.size
    },
    cut,
    fallSilent() {
      for (const link of links) {
        part(link)
        link.near.resume()
        link.far.resume()
      }
    },
    refuse(which) {
      isRefusing = true
      if (which !== 'spared') cut()
      return () => {
        isRefusing = false
      }
    },
    holdUp() {
      isHeldUp = true
      for (const link of links) part(link)
      return () => {
        isHeldUp = false
        for (const link of links) join(link)
      }
    },
    slowDown(ms) {
      lateMs = ms
      return () => {
        lateMs = 0
      }
    },
    async close() {
      for (const { near } of links) near.destroy()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}

function join({ near, far, toFar, toNear }: Link): void {
  near.pipe(toFar)
  far.pipe(toNear)
}

/** What the stages hold goes on its way. */
function part({ near, far, toFar, toNear }: Link): void {
  near.unpipe(toFar)
  far.unpipe(toNear)
}

/** Keeps each piece that passes for so long. Without a wait it costs nothing but the copy. */
function delay(lateMs: () => number): Transform {
  return new Transform({
    transform(chunk, _encoding, done) {
      const ms = lateMs()
      if (ms === 0) done(null, chunk)
      else setTimeout(done, ms, null, chunk)
    },
  })
}
