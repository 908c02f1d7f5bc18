/** Shows the built site on this machine. */
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { ServerType } from '@hono/node-server'
import { serve } from '@hono/node-server'
import { serveStatic } from '@hono/node-server/serve-static'
import { Hono } from 'hono'

/**
 * @param base path of the site, as it was built, with a slash at both ends
 * @param port 0: any that is free
 */
export async function serveSite(
  dist: string,
  base: string,
  port: number,
): Promise<{ url: string; server: ServerType }> {
  const app = new Hono()
  app.use(`${base}*`, serveStatic({ root: dist, rewriteRequestPath: (path) => path.slice(base.length - 1) }))
  app.notFound((context) => context.html(readFileSync(join(dist, '404.html'), 'utf8'), 404))
  return new Promise((resolve) => {
    const server = serve({ fetch: app.fetch, hostname: '127.0.0.1', port }, (address: AddressInfo) =>
      resolve({ url: `http://127.0.0.1:${address.port}${base}`, server }),
    )
  })
}
