import { describe, expect, it } from 'vitest'
import { openSandbox, read } from './sandbox-client.ts'

const ASSET = '/user-attachments/assets/5a0d80c5-0000-4000-8000-000000000010'
const FILE = '/user-attachments/files/15/drawing.pdf'

function pathOf(response: Response): string {
  const url = new URL(response.headers.get('location') ?? '')
  return url.pathname + url.search
}

describe('an upload of the GitHub sandbox', () => {
  it.each([
    [ASSET, 'image/png'],
    [FILE, 'application/octet-stream'],
  ])('%s is sent on to a signed address that needs no token', async (path, type) => {
    const sandbox = openSandbox()
    const moved = await sandbox.get(path)
    expect(moved.status).toBe(302)
    expect(moved.headers.get('x-github-request-id')).not.toBeNull()
    const response = await sandbox.anonymous(pathOf(moved))
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe(type)
    expect((await response.arrayBuffer()).byteLength).toBeGreaterThan(20)
  })

  it('is not there for a stranger, nor is what was never uploaded', async () => {
    const sandbox = openSandbox()
    expect((await sandbox.anonymous(ASSET)).status).toBe(404)
    expect((await sandbox.get('/user-attachments/assets/1')).status).toBe(404)
    expect((await sandbox.get('/user-attachments/files/none/a.pdf')).status).toBe(404)
  })

  it('is refused by the store with a token beside the signature, as S3 does', async () => {
    const sandbox = openSandbox()
    const response = await sandbox.get(pathOf(await sandbox.get(ASSET)))
    expect(response.status).toBe(400)
    expect(await response.text()).toContain('Only one auth mechanism allowed')
  })

  it('is refused by the store with another signature, or after five minutes', async () => {
    let now = new Date()
    const sandbox = openSandbox({ now: () => now })
    const stored = pathOf(await sandbox.get(ASSET))
    expect((await sandbox.anonymous(stored.replace('5a0d80c5', '5a0d80c6'))).status).toBe(403)
    expect((await sandbox.anonymous(stored.replace(/.$/, '!'))).status).toBe(403)
    now = new Date(now.getTime() + 301_000)
    expect(await (await sandbox.anonymous(stored)).text()).toContain('Request has expired')
  })

  it('is under way as any request is: logged, struck by faults, without quota', async () => {
    const sandbox = openSandbox({ rateLimit: 1 })
    await sandbox.control('POST', '/faults', [{ match: 'GET /user-attachments/*', status: 500 }])
    expect((await sandbox.get(ASSET)).status).toBe(500)
    for (let time = 0; time < 3; time += 1) expect((await sandbox.get(ASSET)).status).toBe(302)
    expect((await sandbox.get('/user')).status).toBe(200)
    const { requests } = await read<{ requests: unknown[] }>(await sandbox.control('GET', '/requests'))
    expect(requests).toHaveLength(5)
  })
})
