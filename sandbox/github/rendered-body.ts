/**
 * A body in the representations GitHub's media types ask for.
 *
 * The HTML has what a reader of issues meets: paragraphs, images behind GitHub's proxy with the original in
 * `data-canonical-src`, uploads with a signed address, links. It is no Markdown renderer.
 */
export type BodyFormat = 'raw' | 'text' | 'html' | 'full'

/** From an `Accept` header: `application/vnd.github.full+json`, `….v3.html+json`; anything else is raw. */
export function bodyFormat(accept: string | undefined): BodyFormat {
  const match = /application\/vnd\.github(?:\.[\w-]+)*?\.(raw|text|html|full)\+json/.exec(accept ?? '')
  return (match?.[1] as BodyFormat | undefined) ?? 'raw'
}

export function bodyFields(body: string | null, format: BodyFormat): Record<string, string | null> {
  if (format === 'raw') return { body }
  // The published schema has no null here: an empty body renders to an empty string.
  const html = { body_html: body === null ? '' : toHtml(body) }
  const text = { body_text: body === null ? '' : toText(body) }
  if (format === 'html') return html
  if (format === 'text') return text
  return { body, ...html, ...text }
}

const REFERENCE = /(!?)\[([^\]]*)\]\((https:\/\/[^\s)]+)\)/g
const UPLOADED_IMAGE = /^https:\/\/github\.com\/user-attachments\/assets\/([0-9a-f-]{36})$/

function toHtml(body: string): string {
  const paragraphs = body.split(/\n{2,}/).map((paragraph) => {
    const html = escapeHtml(paragraph).replace(REFERENCE, (_, bang: string, label: string, url: string) =>
      bang === '!' ? image(label, url) : `<a href="${url}" rel="nofollow">${label}</a>`,
    )
    return `<p dir="auto">${html.replaceAll('\n', '<br>\n')}</p>`
  })
  return paragraphs.join('\n')
}

function image(alt: string, url: string): string {
  const upload = UPLOADED_IMAGE.exec(url)?.[1]
  if (upload !== undefined) {
    const signed = `https://private-user-images.githubusercontent.com/9000001/${upload}.png?jwt=sandbox`
    return `<a target="_blank" rel="noopener noreferrer" href="${signed}"><img src="${signed}" alt="${alt}" style="max-width: 100%;"></a>`
  }
  const proxied = `https://camo.githubusercontent.com/${Buffer.from(url).toString('hex')}`
  return `<a target="_blank" rel="noopener noreferrer nofollow" href="${proxied}"><img src="${proxied}" alt="${alt}" data-canonical-src="${url}" style="max-width: 100%;"></a>`
}

function toText(body: string): string {
  return body.replace(REFERENCE, (_, bang: string, label: string) => (bang === '!' ? '' : label)).trim()
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}
