import { createHmac, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders, Server } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import type { SendResult } from '../../sandbox/github/webhook-sender.ts'
import { deliveries, sendWebhooks, webhookExamples } from '../../sandbox/github/webhook-sender.ts'
import { openSandbox, read } from './sandbox-client.ts'

const SECRET = 'it is a secret to everybody'
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

interface Received {
  method: string | undefined
  headers: IncomingHttpHeaders
  body: Buffer
}

let server: Server | undefined
afterEach(() => {
  server?.closeAllConnections()
  server?.close()
})

/** A receiver that keeps what it got; `respond` says what the nth request is answered, null cuts the connection. */
async function receiver(respond: (request: Received, nth: number) => { status: number; body?: unknown } | null) {
  const received: Received[] = []
  const listening = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const entry = { method: request.method, headers: request.headers, body: Buffer.concat(chunks) }
      received.push(entry)
      const answer = respond(entry, received.length)
      if (answer === null) return request.socket.destroy()
      response.writeHead(answer.status, { 'content-type': 'application/json' })
      return response.end(JSON.stringify(answer.body ?? {}))
    })
  })
  server = listening
  await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve))
  return { received, url: `http://127.0.0.1:${(listening.address() as AddressInfo).port}/webhooks/github/1` }
}

function isSigned({ headers, body }: Received): boolean {
  const expected = Buffer.from(`sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`)
  const given = Buffer.from(String(headers['x-hub-signature-256']))
  return given.length === expected.length && timingSafeEqual(given, expected)
}

describe('the recorded payloads', () => {
  it('are exactly 329, of 58 events', () => {
    const examples = webhookExamples()
    expect(examples).toHaveLength(329)
    expect(new Set(examples.map((example) => example.event)).size).toBe(58)
  })

  it('are delivered under the same ids each time, and under new ones when fresh', () => {
    const ids = deliveries().map((delivery) => delivery.deliveryId)
    expect(deliveries().map((delivery) => delivery.deliveryId)).toEqual(ids)
    expect(new Set(ids).size).toBe(329)
    expect(ids.every((id) => UUID.test(id))).toBe(true)
    expect(deliveries(2, false, 5).map((delivery) => delivery.deliveryId)).toEqual(ids.slice(5, 7))
    const fresh = deliveries(329, true).map((delivery) => delivery.deliveryId)
    expect(new Set([...ids, ...fresh]).size).toBe(658)
  })

  it('begin again under new ids when more are wanted than there are', () => {
    const many = deliveries(400)
    expect(new Set(many.map((delivery) => delivery.deliveryId)).size).toBe(400)
    expect(many[329]?.body.equals(many[0]?.body as Buffer)).toBe(true)
  })
})

describe('sending webhooks', () => {
  it('makes 329 deliveries, each signed over its raw bytes and dressed as GitHub does', async () => {
    const { received, url } = await receiver(() => ({ status: 200, body: { status: 'queued' } }))
    const result = await sendWebhooks({ url, secret: SECRET })
    expect(received).toHaveLength(329)
    expect(received.filter(isSigned)).toHaveLength(329)
    expect(received.every(({ method }) => method === 'POST')).toBe(true)
    for (const { headers, body } of received) {
      expect(headers['content-type']).toBe('application/json')
      expect(headers['user-agent']).toMatch(/^GitHub-Hookshot\//)
      expect(headers['x-github-event']).toMatch(/^[a-z0-9_]+$/)
      expect(headers['x-github-delivery']).toMatch(UUID)
      expect(() => JSON.parse(body.toString()) as unknown).not.toThrow()
    }
    const ids = new Set(received.map(({ headers }) => headers['x-github-delivery']))
    expect(ids).toEqual(new Set(result.deliveryIds))
    expect(result).toMatchObject({
      sent: 329,
      accepted: 329,
      duplicates: 0,
      failed: 0,
      attempts: 329,
      byStatus: { 200: 329 },
    })
  })

  it('counts those a receiver had already', async () => {
    const seen = new Set<unknown>()
    const { url } = await receiver(({ headers }) => {
      const status = seen.has(headers['x-github-delivery']) ? 'duplicate' : 'queued'
      seen.add(headers['x-github-delivery'])
      return { status: 200, body: { status } }
    })
    expect(await sendWebhooks({ url, secret: SECRET, limit: 20 })).toMatchObject({ accepted: 20, duplicates: 0 })
    expect(await sendWebhooks({ url, secret: SECRET, limit: 30 })).toMatchObject({ accepted: 30, duplicates: 20 })
    const fresh = await sendWebhooks({ url, secret: SECRET, limit: 10, fresh: true })
    expect(fresh).toMatchObject({ accepted: 10, duplicates: 0 })
  })

  it('sends a delivery again, under its id, after a 5xx and after a cut connection', async () => {
    const { received, url } = await receiver((_, nth) =>
      nth % 3 === 1 ? null : nth % 3 === 2 ? { status: 503 } : { status: 200 },
    )
    const result = await sendWebhooks({ url, secret: SECRET, limit: 5, concurrency: 1, backoffMs: 1 })
    expect(result).toMatchObject({ sent: 5, accepted: 5, failed: 0, attempts: 15, byStatus: { 200: 5 } })
    const ids = received.map(({ headers }) => headers['x-github-delivery'])
    expect(ids).toEqual(result.deliveryIds.flatMap((id) => [id, id, id]))
  })

  it('does not send again what was refused with 4xx', async () => {
    const { received, url } = await receiver(() => ({ status: 403 }))
    const result = await sendWebhooks({ url, secret: SECRET, limit: 3 })
    expect(result).toMatchObject({ sent: 3, accepted: 0, failed: 3, byStatus: { 403: 3 } })
    expect(received).toHaveLength(3)
  })

  it('gives up when nobody listens and the time for retries is over', async () => {
    const { url } = await receiver(() => ({ status: 200 }))
    await new Promise((resolve) => server?.close(resolve))
    const result = await sendWebhooks({ url, secret: SECRET, limit: 2, retryForSeconds: 0 })
    expect(result).toMatchObject({ sent: 2, accepted: 0, failed: 2, attempts: 2, byStatus: { unreachable: 2 } })
  })

  it('keeps to its rate', async () => {
    const { url } = await receiver(() => ({ status: 200 }))
    const result = await sendWebhooks({ url, secret: SECRET, limit: 11, ratePerSecond: 100 })
    expect(result.durationMs).toBeGreaterThanOrEqual(99)
  })

  it('keeps no more under way than told', async () => {
    let open = 0
    let most = 0
    const listening = createServer((request, response) => {
      most = Math.max(most, ++open)
      request.resume().on('end', () => setImmediate(() => response.end(() => open--)))
    })
    server = listening
    await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(listening.address() as AddressInfo).port}/`
    await sendWebhooks({ url, secret: SECRET, limit: 60, concurrency: 3 })
    expect(most).toBeLessThanOrEqual(3)
    expect(most).toBeGreaterThan(1)
  })

  it('is also there as a control endpoint', async () => {
    const { received, url } = await receiver(() => ({ status: 200, body: { status: 'queued' } }))
    const response = await openSandbox().control('POST', '/webhooks', { url, secret: SECRET, limit: 7, concurrency: 2 })
    expect(response.status).toBe(200)
    const result = await read<SendResult>(response)
    expect(result).toMatchObject({ sent: 7, accepted: 7, duplicates: 0, failed: 0, byStatus: { 200: 7 } })
    expect(result.deliveryIds).toHaveLength(7)
    expect(received.filter(isSigned)).toHaveLength(7)
  })
})
