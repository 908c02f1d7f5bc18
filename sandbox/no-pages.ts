import type { MiddlewareHandler } from 'hono'

/**
 * Refuses what a web page sends: the control endpoints ask for no token, and one of them posts to any address.
 *
 * A browser adds `Origin` to every request that changes something (Fetch, 3.2), also where a name was re-pointed to this machine.
 */
export const noPages: MiddlewareHandler = async function noPages(c, next) {
  if (c.req.header('origin') === undefined) return next()
  return c.json({ error: 'The control endpoints are not for web pages.' }, 403)
}
