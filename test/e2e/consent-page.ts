/** What a person sees at the provider, in front of an authorization server that asks nobody: Allow leads on to it, Deny leads back. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface ConsentPage {
  /** Takes the parameters of an authorization request (RFC 6749, 4.1.1). */
  readonly url: string
  /** A page of another site, whose one button posts to this address. */
  foreignForm(action: string): string
  close(): Promise<void>
}

export async function startConsentPage(authorizationEndpoint: string): Promise<ConsentPage> {
  const server = createServer(({ url = '/' }, response) => {
    const { pathname, searchParams } = new URL(url, 'http://consent.invalid')
    response.setHeader('Content-Type', 'text/html; charset=UTF-8')
    if (pathname === '/foreign')
      return response.end(
        `<h1>Win a prize</h1><form method="post" action="${escaped(searchParams.get('action') ?? '')}"><button>Win</button></form>`,
      )
    if (pathname !== '/consent') {
      response.statusCode = 404 // A browser asks for an icon, too.
      return response.end()
    }
    const back = new URL(searchParams.get('redirect_uri') ?? '')
    back.searchParams.set('error', 'access_denied')
    back.searchParams.set('error_description', 'The <b>resource owner</b> denied the request')
    back.searchParams.set('state', searchParams.get('state') ?? '')
    return response.end(
      `<h1>Acme CRM asks</h1><a href="${escaped(`${authorizationEndpoint}?${searchParams}`)}">Allow</a> <a href="${escaped(back.href)}">Deny</a>`,
    )
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url: `${origin}/consent`,
    foreignForm: (action) => `${origin}/foreign?${new URLSearchParams({ action })}`,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('"', '&quot;')
}
