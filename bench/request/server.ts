/** The provider of the request bench, in a process of its own: every call is answered at once with the same small JSON. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const ANSWER = JSON.stringify({
  id: 4711,
  object: 'widget',
  name: 'A widget of the bench',
  tags: ['small', 'json'],
  created_at: '2026-01-01T00:00:00Z',
})

const server = createServer((request, response) => {
  request.resume()
  response.writeHead(200, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(ANSWER),
    'x-request-id': 'req_0123456789abcdef',
  })
  response.end(ANSWER)
})
// A connection that idles while the others take their turn must not be closed under its next call.
server.keepAliveTimeout = 600_000
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
process.on('disconnect', () => process.exit(0))
