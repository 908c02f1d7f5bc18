import { describe, expect, it } from 'vitest'
import { startGithubSandbox } from '../../sandbox/github/server.ts'
import { deliveries, HOOK_ID } from '../../sandbox/github/webhook-sender.ts'
import { startHttpServer } from '../support/http-server.ts'
import { links, openSandbox, read, WIDGETS } from './sandbox-client.ts'

const LIST = `${WIDGETS}/hooks/${HOOK_ID}/deliveries`
const NOW = new Date('2026-01-02T03:04:05.678Z')

interface Item {
  guid: string
  delivered_at: string
  redelivery: boolean
  status: string
  status_code: number
  event: string
}

/** JSON.parse() would round them. */
const idsIn = (text: string) => [...text.matchAll(/"id":(\d+)/g)].map(([, id]) => id as string)

describe('the deliveries of the hook', () => {
  it('are listed newest first, page by page, by the cursor that each page names', async () => {
    const sandbox = openSandbox({ now: () => NOW })
    await sandbox.control('POST', '/deliveries', { count: 250 })
    const ids: string[] = []
    let address: string | undefined = `${LIST}?per_page=100`
    const sizes: number[] = []
    while (address !== undefined) {
      const response: Response = await sandbox.get(address)
      const page = idsIn(await response.text())
      sizes.push(page.length)
      ids.push(...page)
      const next = links(response).next
      expect(next ?? 'cursor=v1_').toContain('cursor=v1_')
      address = next === undefined ? undefined : new URL(next).pathname + new URL(next).search
    }
    expect(sizes).toEqual([100, 100, 50])
    expect(ids).toEqual(Array.from({ length: 250 }, (_, index) => String(3_804_004_623_172_239_250n - BigInt(index))))
  })

  it('show the same page again while new ones arrive', async () => {
    const sandbox = openSandbox()
    await sandbox.control('POST', '/deliveries', { count: 5 })
    const next = new URL(links(await sandbox.get(`${LIST}?per_page=2`)).next ?? '')
    const before = await (await sandbox.get(LIST + next.search)).text()
    await sandbox.control('POST', '/deliveries', { count: 5, offset: 5 })
    expect(await (await sandbox.get(LIST + next.search)).text()).toBe(before)
  })

  it('have the times, statuses and guids they were ordered with', async () => {
    const sandbox = openSandbox({ now: () => NOW })
    await sandbox.control('POST', '/deliveries', { count: 2, secondsAgo: 3_600, secondsApart: 60 })
    await sandbox.control('POST', '/deliveries', { offset: 1, statusCode: 500 })
    await sandbox.control('POST', '/deliveries', { offset: 1, statusCode: 202 })
    const [first, second] = deliveries(2)
    const items = await read<Item[]>(await sandbox.get(LIST))
    expect(items.map((item) => [item.guid, item.delivered_at, item.redelivery, item.status, item.status_code])).toEqual(
      [
        [second?.deliveryId, '2026-01-02T03:04:05.678Z', true, 'OK', 202],
        [second?.deliveryId, '2026-01-02T03:04:05.678Z', true, 'Invalid HTTP Response: 500', 500],
        [second?.deliveryId, '2026-01-02T02:04:05.678Z', false, 'failed to connect', 502],
        [first?.deliveryId, '2026-01-02T02:03:05.678Z', false, 'failed to connect', 502],
      ],
    )
    const failures = await read<Item[]>(await sandbox.get(`${LIST}?status=failure`))
    expect(failures.map((item) => item.status_code)).toEqual([500, 502, 502])
    expect(await read<Item[]>(await sandbox.get(`${LIST}?status=success`))).toHaveLength(1)
  })

  it('hold the payload and the headers of what was sent', async () => {
    const sandbox = openSandbox()
    await sandbox.control('POST', '/deliveries', { offset: 7 })
    const [id] = idsIn(await (await sandbox.get(LIST)).text())
    const [sent] = deliveries(1, false, 7)
    const delivery = await read<{ request: { headers: object; payload: unknown } }>(await sandbox.get(`${LIST}/${id}`))
    expect(delivery.request.payload).toEqual(JSON.parse(String(sent?.body)))
    expect(delivery.request.headers).toMatchObject({
      'X-GitHub-Delivery': sent?.deliveryId,
      'X-GitHub-Event': sent?.event,
    })
  })

  it('are forgotten on order', async () => {
    const sandbox = openSandbox()
    await sandbox.control('POST', '/deliveries', { count: 3 })
    expect(await read(await sandbox.control('DELETE', '/deliveries'))).toEqual({ cleared: 3 })
    expect(await read(await sandbox.get(LIST))).toEqual([])
  })

  it('are each attempt of the webhooks that the sandbox sends', async () => {
    const statuses = [500, 202, 204]
    const receiver = await startHttpServer()
    receiver.answer = (_request, response) =>
      void response.writeHead(statuses.shift() ?? 200).end('{"status":"accepted"}')
    const sandbox = await startGithubSandbox()
    try {
      const body = JSON.stringify({ url: receiver.url, secret: 's', limit: 2, concurrency: 1, backoffMs: 1 })
      await fetch(`${sandbox.url}/_sandbox/webhooks`, { method: 'POST', body })
      const authorization = 'Bearer sandbox-token'
      const text = await (await fetch(sandbox.url + LIST, { headers: { authorization } })).text()
      const items = JSON.parse(text) as Item[]
      expect(items.map((item) => [item.status_code, item.redelivery])).toEqual([
        [204, false],
        [202, true],
        [500, false],
      ])
      const delivery = await read<object>(
        await fetch(`${sandbox.url}${LIST}/${idsIn(text)[1]}`, { headers: { authorization } }),
      )
      expect(delivery).toMatchObject({ url: receiver.url, response: { payload: '{"status":"accepted"}' } })
    } finally {
      await sandbox.close()
      await receiver.close()
    }
  })
})
