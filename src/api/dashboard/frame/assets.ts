/** The dashboard's style, icon and scripts, as files of their own: kept by a browser for ever, under a name that changes with their bytes. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Hono } from 'hono'

interface Asset {
  readonly name: string
  readonly type: string
  readonly text: string
}

export const STYLE = asset('dashboard.css', 'text/css')
export const ICON = asset('icon.svg', 'image/svg+xml')
/** In their order. */
export const SCRIPTS = [asset('dashboard.js', 'text/javascript'), asset('live.js', 'text/javascript')]

function asset(file: string, type: string): Asset {
  const text = readFileSync(new URL(`./assets/${file}`, import.meta.url), 'utf8')
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 16)
  return { name: file.replace('.', `.${hash}.`), type: `${type}; charset=utf-8`, text }
}

/** Open to any caller: the sign-in page needs them, and they say nothing of anybody. */
export function assetRoutes(): Hono {
  const routes = new Hono()
  for (const { name, type, text } of [STYLE, ICON, ...SCRIPTS])
    routes.get(`/assets/${name}`, (context) =>
      context.body(text, 200, {
        'Content-Type': type,
        'Cache-Control': 'public, max-age=31536000, immutable',
        'X-Content-Type-Options': 'nosniff',
      }),
    )
  return routes
}
