import { generateKeyPairSync } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { AppCredentials } from '../../sandbox/github/installation-tokens.ts'
import { appJwt, signed } from './app-jwt.ts'
import type { SandboxClient } from './sandbox-client.ts'
import { openSandbox, read, WIDGETS } from './sandbox-client.ts'

interface Issued {
  token: string
  expires_at: string
}

async function credentialsOf(sandbox: SandboxClient): Promise<AppCredentials> {
  return await read(await sandbox.control('GET', '/app'))
}

async function ask(sandbox: SandboxClient, jwt: string): Promise<Response> {
  const { installation_id } = await credentialsOf(sandbox)
  const headers = { authorization: `Bearer ${jwt}` }
  return await sandbox.send('POST', `/app/installations/${installation_id}/access_tokens`, undefined, headers)
}

const nowSeconds = Math.floor(Date.now() / 1_000)
const otherKey = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs1', format: 'pem' })

describe('an App of the GitHub sandbox', () => {
  it('gets a token of its installation that lets in for an hour', async () => {
    let now = new Date()
    const sandbox = openSandbox({ now: () => now })
    const response = await ask(sandbox, await appJwt(sandbox))
    expect(response.status).toBe(201)
    const { token, expires_at } = await read<Issued>(response)
    expect(token).toMatch(/^ghs_[A-Za-z0-9]{36}$/)
    expect(Date.parse(expires_at)).toBe(Math.floor(now.getTime() / 1_000) * 1_000 + 3_600_000)

    const get = async (): Promise<number> => (await sandbox.get(WIDGETS, { authorization: `Bearer ${token}` })).status
    expect(await get()).toBe(200)
    now = new Date(now.getTime() + 3_600_000)
    expect(await get()).toBe(401)
  })

  it('has an hourly quota of its own, and its own calls cost none', async () => {
    const sandbox = openSandbox({ rateLimit: 2 })
    const { token } = await read<Issued>(await ask(sandbox, await appJwt(sandbox)))
    const remaining = async (headers: Record<string, string>): Promise<string | null> =>
      (await sandbox.get(WIDGETS, headers)).headers.get('x-ratelimit-remaining')
    expect(await remaining({})).toBe('1')
    expect(await remaining({ authorization: `Bearer ${token}` })).toBe('1')
    expect((await ask(sandbox, await appJwt(sandbox))).headers.get('x-ratelimit-remaining')).toBe('2')
  })

  it('loses every token that is revoked', async () => {
    const sandbox = openSandbox()
    const { token } = await read<Issued>(await ask(sandbox, await appJwt(sandbox)))
    expect(await read(await sandbox.control('DELETE', '/app/tokens'))).toEqual({ revoked: 1 })
    expect((await sandbox.get(WIDGETS, { authorization: `Bearer ${token}` })).status).toBe(401)
  })

  it('takes the issuer as a number too', async () => {
    const sandbox = openSandbox()
    expect((await ask(sandbox, await appJwt(sandbox, { iss: (await credentialsOf(sandbox)).app_id }))).status).toBe(201)
  })

  it.each([
    [{ iss: '1' }, 'Issuer'],
    [{ iat: nowSeconds + 600 }, 'Issued at'],
    [{ iat: 'now' }, 'Issued at'],
    [{ exp: nowSeconds - 1 }, 'must be a numeric value'],
    [{ exp: undefined }, 'must be a numeric value'],
    [{ exp: nowSeconds + 3_600 }, 'too far in the future'],
  ])('is refused with %j', async (claims, message) => {
    const sandbox = openSandbox()
    const response = await ask(sandbox, await appJwt(sandbox, claims))
    expect(response.status).toBe(401)
    expect((await read<{ message: string }>(response)).message).toContain(message)
  })

  it('is refused with another key, a cut signature, no algorithm and no JWT', async () => {
    const sandbox = openSandbox()
    const { app_id } = await credentialsOf(sandbox)
    const good = await appJwt(sandbox)
    const [, body] = good.split('.')
    const unsigned = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${body}.x`
    const claims = { iss: app_id, iat: nowSeconds - 60, exp: nowSeconds + 60 }
    for (const jwt of [signed(claims, String(otherKey)), good.slice(0, -4), unsigned, 'sandbox-token', 'a.b.c']) {
      const response = await ask(sandbox, jwt)
      expect(response.status).toBe(401)
      expect(await read(response)).toMatchObject({ message: 'A JSON web token could not be decoded' })
    }
  })

  it('is not let in by its JWT where a token is asked for', async () => {
    const sandbox = openSandbox()
    const authorization = `Bearer ${await appJwt(sandbox)}`
    expect((await sandbox.get(WIDGETS, { authorization })).status).toBe(401)
  })
})
