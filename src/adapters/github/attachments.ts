/** The pictures, videos and files in a body. Rule: docs/behaviour/github.md, "Attachments". */
import { Parser } from 'htmlparser2'
import { z } from 'zod'

export const GitHubAttachment = z.object({
  /** The lasting URL, from the Markdown. `assets.download()` takes it. */
  plain_url: z.string(),
  /** The signed URL of the HTML, valid for minutes. Null if the HTML has a lasting URL, too. */
  authenticated_url: z.string().nullable(),
  alt_text: z.string().nullable(),
})
export type GitHubAttachment = z.infer<typeof GitHubAttachment>

interface Found {
  readonly url: string
  readonly altText: string | null
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/i
/** Also finds a UUID that overlaps another one. */
const EACH_UUID = new RegExp(`(?=(${UUID.source}))`, 'gi')
const HTTPS_URL = /https:\/\/[^\s"'<>()]+/g
/** https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/attaching-files */
const FILES_PATH = '/user-attachments/files/'

/**
 * In the order of the HTML, each plain URL once.
 *
 * Anyone who may open an issue writes both texts, so the time is proportional to their length for any content.
 */
export function attachmentsOf({
  body_html: html,
  body,
}: {
  readonly body_html?: string | null | undefined
  readonly body?: string | null | undefined
}): GitHubAttachment[] {
  if (typeof html !== 'string' || html === '') return []
  const attachments = new Map<string, GitHubAttachment>()
  const plainUrls = plainUrlsIn(body ?? '')
  for (const found of mediaIn(html)) {
    const attachment = attachmentOf(found, plainUrls)
    if (!attachments.has(attachment.plain_url)) attachments.set(attachment.plain_url, attachment)
  }
  return [...attachments.values()]
}

/**
 * Reads each tag by itself. Tracking open tags is not needed here, and would take quadratic time: the base class searches all open
 * tags for each end tag.
 */
class TagParser extends Parser {
  protected override isVoidElement(): boolean {
    return true
  }
}

function mediaIn(html: string): Found[] {
  const found: Found[] = []
  const parser = new TagParser({
    onopentag(name, attributes) {
      const media = mediaOf(name, attributes)
      if (media !== null) found.push(media)
    },
  })
  parser.end(html)
  return found
}

function mediaOf(name: string, { src, href, alt, ...more }: Record<string, string>): Found | null {
  // GitHub shows a foreign picture through its own proxy, and notes the source.
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

/** The https URLs of the Markdown by each UUID in them, in lower case; the first one of each. */
function plainUrlsIn(body: string): ReadonlyMap<string, string> {
  const urls = new Map<string, string>()
  for (const [url] of body.matchAll(HTTPS_URL)) {
    const plain = withoutCommas(url)
    for (const [, uuid = ''] of plain.matchAll(EACH_UUID)) {
      const key = uuid.toLowerCase()
      if (!urls.has(key)) urls.set(key, plain)
    }
  }
  return urls
}

/** Commas at the end belong to the sentence. No regular expression: `/,+$/` takes quadratic time for a run of commas. */
function withoutCommas(url: string): string {
  let end = url.length
  while (url[end - 1] === ',') end -= 1
  return url.slice(0, end)
}

/** A URL with a UUID is signed for this reader; the Markdown has the lasting one with the same UUID. */
function attachmentOf({ url, altText }: Found, plainUrls: ReadonlyMap<string, string>): GitHubAttachment {
  const uuid = UUID.exec(url)?.[0].toLowerCase()
  if (uuid === undefined) return { plain_url: url, authenticated_url: null, alt_text: altText }
  return { plain_url: plainUrls.get(uuid) ?? url, authenticated_url: url, alt_text: altText }
}
