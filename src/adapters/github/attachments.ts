/** The pictures, videos and files in a body. Rule: docs/behaviour/github.md, "Attachments". */
import { Parser } from 'htmlparser2'
import { z } from 'zod'

export const GitHubAttachment = z.object({
  /** Stays: what stands in the Markdown. `assets.download()` takes it. */
  plain_url: z.string(),
  /** What the HTML has instead: signed, and good for minutes. Null when it is the same kind of URL. */
  authenticated_url: z.string().nullable(),
  alt_text: z.string().nullable(),
})
export type GitHubAttachment = z.infer<typeof GitHubAttachment>

interface Found {
  readonly url: string
  readonly altText: string | null
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/i
const HTTPS_URL = /https:\/\/[^\s"'<>()]+/g
/** https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/attaching-files */
const FILES_PATH = '/user-attachments/files/'

/** In the order of the HTML, each plain URL once. */
export function attachmentsOf({
  body_html: html,
  body,
}: {
  readonly body_html?: string | null | undefined
  readonly body?: string | null | undefined
}): GitHubAttachment[] {
  if (typeof html !== 'string' || html === '') return []
  const attachments = new Map<string, GitHubAttachment>()
  for (const found of mediaIn(html)) {
    const attachment = attachmentOf(found, body ?? '')
    if (!attachments.has(attachment.plain_url)) attachments.set(attachment.plain_url, attachment)
  }
  return [...attachments.values()]
}

function mediaIn(html: string): Found[] {
  const found: Found[] = []
  const parser = new Parser({
    onopentag(name, attributes) {
      const media = mediaOf(name, attributes)
      if (media !== null) found.push(media)
    },
  })
  parser.end(html)
  return found
}

function mediaOf(name: string, { src, href, alt, ...more }: Record<string, string>): Found | null {
  // GitHub shows a foreign picture by a proxy of its own, and notes where it came from.
  if (name === 'img') return foundAt(more['data-canonical-src'] || src, alt === '' ? null : (alt ?? null))
  if (name === 'video') return foundAt(src)
  if (name === 'a' && isFile(href)) return foundAt(href)
  return null
}

function foundAt(url: string | undefined, altText: string | null = null): Found | null {
  return url === undefined || url === '' ? null : { url, altText }
}

function isFile(href: string | undefined): boolean {
  return href !== undefined && URL.canParse(href) && new URL(href).pathname.startsWith(FILES_PATH)
}

/** A URL with a UUID is signed for this reader; the Markdown has the lasting one with the same UUID. */
function attachmentOf({ url, altText }: Found, body: string): GitHubAttachment {
  const uuid = UUID.exec(url)?.[0].toLowerCase()
  if (uuid === undefined) return { plain_url: url, authenticated_url: null, alt_text: altText }
  const plain = (body.match(HTTPS_URL) ?? []).find((candidate) => candidate.toLowerCase().includes(uuid))
  return { plain_url: plain?.replace(/[>,)]+$/, '') ?? url, authenticated_url: url, alt_text: altText }
}
