/** A browser that follows nothing by itself: it keeps cookies for each origin, by name and path, as RFC 6265 says. */
export interface Page {
  readonly status: number
  /** Where it leads; null: nowhere. */
  readonly location: string | null
  readonly url: string
  readonly text: string
}

interface Cookie {
  readonly origin: string
  readonly path: string
  readonly name: string
  readonly value: string
}

export class CookieJar {
  #cookies: Cookie[] = []

  async open(url: string, form?: Record<string, string>): Promise<Page> {
    const { origin, pathname } = new URL(url)
    const cookies = this.#cookies.filter((cookie) => cookie.origin === origin && pathname.startsWith(cookie.path))
    const response = await fetch(url, {
      redirect: 'manual',
      headers: {
        accept: 'text/html',
        ...(cookies.length === 0 ? {} : { cookie: cookies.map(({ name, value }) => `${name}=${value}`).join('; ') }),
      },
      ...(form === undefined ? {} : { method: 'POST', body: new URLSearchParams(form) }),
    })
    for (const line of response.headers.getSetCookie()) this.#keep(origin, line)
    const location = response.headers.get('location')
    return {
      status: response.status,
      location: location === null ? null : new URL(location, url).href,
      url,
      text: await response.text(),
    }
  }

  #keep(origin: string, line: string): void {
    const [pair = '', ...attributes] = line.split('; ')
    const [name = '', value = ''] = pair.split('=')
    const path = attributes.find((attribute) => /^path=/i.test(attribute))?.slice('path='.length) ?? '/'
    this.#cookies = this.#cookies.filter((cookie) => cookie.origin !== origin || cookie.name !== name)
    if (!attributes.some((attribute) => /^max-age=0$/i.test(attribute))) {
      this.#cookies.push({ origin, path, name, value })
    }
  }
}
