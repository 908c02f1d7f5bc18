import { createHmac, randomBytes } from 'node:crypto'
import type { Context } from 'hono'
import { Hono } from 'hono'
import { notFound } from './failures.ts'
import type { SandboxEnv, SandboxState } from './sandbox-state.ts'

/**
 * Uploads as github.com serves those of a private repository: whoever may see them is sent on to a signed address of the store, good
 * for five minutes. On an Enterprise server both are on its own host, as here.
 */
const SIGNATURE_SECONDS = 300
const ASSET = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const FILE_NUMBER = /^[1-9]\d{0,9}$/
/** A picture of one pixel. */
const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)

/** Not part of the API: it costs no quota. */
export function attachmentRoutes(state: SandboxState): Hono<SandboxEnv> {
  const app = new Hono<SandboxEnv>()
  const key = randomBytes(32)

  app.use('/user-attachments/*', async (c, next) => {
    const { kind } = c.get('caller')
    // A stranger does not learn that it exists.
    if (kind !== 'user' && kind !== 'installation') throw notFound()
    await next()
  })
  app.get('/user-attachments/assets/:id', (c) => {
    const id = c.req.param('id')
    if (!ASSET.test(id)) throw notFound()
    return c.redirect(signed(c, `/_store/${id}.png`))
  })
  app.get('/user-attachments/files/:number/:name', (c) => {
    const { number, name } = c.req.param()
    if (!FILE_NUMBER.test(number)) throw notFound()
    return c.redirect(signed(c, `/_store/${number}/${encodeURIComponent(name)}`))
  })

  app.get('/_store/*', (c) => {
    const url = new URL(c.req.url)
    // https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
    if (c.req.header('authorization') !== undefined) {
      return refused(400, 'InvalidArgument', 'Only one auth mechanism allowed')
    }
    const at = url.searchParams.get('X-Amz-Date') ?? ''
    const isOurs = url.searchParams.get('X-Amz-Signature') === signatureOf(url.pathname, at)
    if (!isOurs) return refused(403, 'SignatureDoesNotMatch', 'The request signature does not match')
    if (state.now().getTime() > Date.parse(at) + SIGNATURE_SECONDS * 1_000) {
      return refused(403, 'AccessDenied', 'Request has expired')
    }
    const isImage = url.pathname.endsWith('.png')
    return new Response(isImage ? PNG : `A file of the sandbox: ${url.pathname.slice('/_store/'.length)}\n`, {
      headers: { 'content-type': isImage ? 'image/png' : 'application/octet-stream' },
    })
  })

  function signed(c: Context, path: string): string {
    const url = new URL(path, c.req.url)
    const at = state.now().toISOString()
    url.search = new URLSearchParams({
      'X-Amz-Date': at,
      'X-Amz-Expires': String(SIGNATURE_SECONDS),
      'X-Amz-Signature': signatureOf(url.pathname, at),
    }).toString()
    return url.href
  }

  function signatureOf(path: string, at: string): string {
    return createHmac('sha256', key).update(`${path}\n${at}`).digest('hex')
  }

  return app
}

function refused(status: number, code: string, message: string): Response {
  const body = `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>${message}</Message></Error>`
  return new Response(body, { status, headers: { 'content-type': 'application/xml' } })
}
