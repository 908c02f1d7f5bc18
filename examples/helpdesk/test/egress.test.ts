/** Which host the example reaches though its address is not public. */
import { describe, expect, it } from 'vitest'
import { allowedHosts } from '../egress.ts'

describe('beside public addresses the host reaches', () => {
  it.each([
    ['http://127.0.0.1:4020', ['127.0.0.1']],
    ['http://localhost:4020', ['localhost']],
    ['http://[::1]:4020', ['::1']],
    ['https://deskline.internal.example', []],
    ['http://10.0.0.5', []],
    ['http://127.0.0.1.example.com', []],
    [undefined, []],
  ])('for a Deskline at %s in development %j', (baseUrl, hosts) => {
    expect(allowedHosts(baseUrl, { isDevelopment: true })).toEqual(hosts)
  })

  it('nothing in production, wherever its Deskline is', () => {
    expect(allowedHosts('http://127.0.0.1:4020', { isDevelopment: false })).toEqual([])
  })
})
