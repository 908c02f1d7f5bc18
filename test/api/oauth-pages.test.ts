import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { connectedPage, connectPage, failurePage, oauthPageHeaders } from '../../src/api/oauth-pages.ts'

const HOSTILE = `"><script>alert('1')</script>&`
const ESCAPED = '&quot;&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;'

const CODES = [
  ...[
    'authorization_denied',
    'authorization_failed',
    'authorization_url_failed',
    'base_url_missing',
    'code_exchange_failed',
  ],
  ...[
    'credentials_unreadable',
    'cross_origin',
    'insufficient_scope',
    'integration_not_found',
    'invalid_callback',
    'invalid_issuer',
    'invalid_link',
  ],
  ...[
    'invalid_state',
    'lock_timeout',
    'missing_code',
    'oauth_unsupported',
    'revoke_failed',
    'unauthenticated',
    'unknown_provider',
  ],
]

const failure = { code: 'authorization_denied', message: 'Access was refused.', providerError: null, retryUrl: null }

const pages: [string, string][] = [
  [
    'the page to connect',
    connectPage({ name: HOSTILE, provider: HOSTILE, authorizeUrl: `https://a.example/?${HOSTILE}` }),
  ],
  [
    'the page of a failure',
    failurePage({ code: HOSTILE, message: HOSTILE, providerError: HOSTILE, retryUrl: HOSTILE }),
  ],
  ['the page of a success', connectedPage()],
  ['the page after a revocation', connectedPage('disconnected')],
]

describe.each(pages)('%s', (_, page) => {
  it('has one style, which the policy allows by its hash, and nothing that the policy keeps out', () => {
    const styles = [...page.matchAll(/<style>([\s\S]*?)<\/style>/g)].map(([, style = '']) => style)
    expect(styles).toHaveLength(1)
    const hash = createHash('sha256')
      .update(styles[0] ?? '')
      .digest('base64')
    expect(oauthPageHeaders()['Content-Security-Policy']).toContain(`style-src 'sha256-${hash}';`)
    expect(page).not.toMatch(/<script|<form|<img|<link|<iframe|\bstyle=|\bon\w+=|javascript:/i)
  })

  it('has a title, a heading, a language, and fits a telephone', () => {
    expect(page).toMatch(/^<!doctype html>\n<html lang="en">/)
    expect(page).toMatch(/<title>.+ · Integrations<\/title>/)
    expect([...page.matchAll(/<h1>.+<\/h1>/g)]).toHaveLength(1)
    expect(page).toContain('<meta name="viewport" content="width=device-width, initial-scale=1">')
  })

  it('says what comes next', () => {
    expect([...page.matchAll(/What to do:|class="go"/g)].length).toBeGreaterThan(0)
  })
})

describe('foreign text', () => {
  it('is escaped wherever it stands', () => {
    for (const [, page] of pages.slice(0, 2)) {
      expect(page).not.toContain(HOSTILE)
      expect(page).toContain(ESCAPED)
    }
    expect(pages[0]?.[1]).toContain(`href="https://a.example/?${ESCAPED}"`)
    expect(pages[1]?.[1]).toContain(`href="${ESCAPED}"`)
  })
})

describe('the headers of the pages', () => {
  it('keep the address from other sites, from caches and from frames', () => {
    expect(oauthPageHeaders()).toMatchObject({
      'Referrer-Policy': 'no-referrer',
      'Cache-Control': 'no-store',
      'X-Content-Type-Options': 'nosniff',
      'X-Frame-Options': 'DENY',
    })
    expect(oauthPageHeaders()['Content-Security-Policy']).toMatch(
      /^default-src 'none'; .*form-action 'none'; base-uri 'none'; frame-ancestors 'none'$/,
    )
  })
})

describe('the page to connect', () => {
  const link = { provider: 'Acme', authorizeUrl: 'https://api.example.com/x?expires=1&signature=s' }

  it('names the integration unless it is called as its provider', () => {
    expect(connectPage({ name: 'Sales', ...link })).toContain('for “Sales”')
    expect(connectPage({ name: 'Acme', ...link })).not.toContain('“Acme”')
  })

  it('leads to the provider by one link', () => {
    const page = connectPage({ name: 'Sales', ...link })
    expect([...page.matchAll(/<a [^>]*href="([^"]*)"/g)].map(([, href]) => href)).toEqual([
      'https://api.example.com/x?expires=1&amp;signature=s',
    ])
  })
})

describe('the page of a failure', () => {
  const titles = new Map(CODES.map((code) => [code, titleOf(failurePage({ ...failure, code }))]))

  it.each(CODES)('has words of its own for %s', (code) => {
    const title = titles.get(code)
    expect(title).not.toBe(titleOf(failurePage({ ...failure, code: 'nobody_knows' })))
    expect([...titles].filter(([, other]) => other === title)).toEqual([[code, title]])
  })

  it.each(['nobody_knows', 'constructor', 'toString'])('has words for the unknown code %s', (code) => {
    expect(titleOf(failurePage({ ...failure, code }))).toBe('Something went wrong')
  })

  it('offers to try again where it knows an address for that, and only there', () => {
    const retryUrl = 'https://api.example.com/integrations/7/oauth/connect?expires=1&signature=s'
    const [without, withRetry] = [failurePage(failure), failurePage({ ...failure, retryUrl })]
    expect(without).not.toContain('<a ')
    expect(without).toContain('for a new link')
    expect(withRetry).toContain(`<a class="go" href="${retryUrl.replace('&', '&amp;')}">Try again</a>`)
  })

  it("has the answer's own message and codes for whoever looks after the service, folded away", () => {
    const page = failurePage({ ...failure, providerError: 'access_denied' })
    const [, details = ''] = /<details>([\s\S]*)<\/details>/.exec(page) ?? []
    expect(details).toContain('Access was refused.')
    expect(details).toContain('<code>authorization_denied</code>')
    expect(details).toContain('<code>access_denied</code>')
    expect(failurePage(failure)).not.toContain('The other service said')
  })
})

function titleOf(page: string): string {
  return /<h1>(.*)<\/h1>/.exec(page)?.[1] ?? ''
}
