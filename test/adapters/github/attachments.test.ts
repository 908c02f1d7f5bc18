/** What a body shows, read out of the HTML that GitHub makes of it. */
import { describe, expect, it } from 'vitest'
import { attachmentsOf } from '../../../src/adapters/github/attachments.ts'
import { AnsweredComment, AnsweredIssue } from '../../../src/adapters/github/data.ts'
import { processorMs } from '../../support/processor-time.ts'

const UUID = '0f2a3b4c-1111-4222-8333-abcdefabcdef'
const OTHER_UUID = '7c6d5e4f-2222-4333-9444-123456abcdef'
const ASSET = `https://github.com/user-attachments/assets/${UUID}`
const SIGNED = `https://private-user-images.githubusercontent.com/1/2-${UUID}.png?jwt=a.b.c`
const FILE = 'https://github.com/user-attachments/files/123/report.pdf'

const plain = (url: string, alt: string | null = null) => ({ plain_url: url, authenticated_url: null, alt_text: alt })
const signed = (alt: string | null = null) => ({ plain_url: ASSET, authenticated_url: SIGNED, alt_text: alt })

describe('the attachments of', () => {
  it.each([
    ['no HTML', null, ASSET, []],
    ['an empty HTML', '', ASSET, []],
    ['text alone', '<p>Hello</p>', 'Hello', []],
    [
      'a picture',
      '<p><img src="https://example.com/a.png" alt="A cat"></p>',
      '',
      [plain('https://example.com/a.png', 'A cat')],
    ],
    [
      'a picture with an empty alt',
      '<img alt="" src="https://example.com/a.png">',
      '',
      [plain('https://example.com/a.png')],
    ],
    [
      'a picture that GitHub shows by its proxy: where it came from',
      '<img src="https://camo.githubusercontent.com/x/y" data-canonical-src="https://example.com/a.png">',
      '',
      [plain('https://example.com/a.png')],
    ],
    [
      'a picture whose origin is empty',
      '<img data-canonical-src="" src="https://example.com/a.png">',
      '',
      [plain('https://example.com/a.png')],
    ],
    ['a picture with an empty src', '<img src="" alt="x">', '', []],
    ['a picture without src', '<img alt="x">', '', []],
    [
      'entities in an attribute',
      '<img src="https://example.com/a?b=1&amp;c=2" alt="&lt;3">',
      '',
      [plain('https://example.com/a?b=1&c=2', '<3')],
    ],
    [
      'tags in capitals and single quotes',
      "<IMG SRC='https://example.com/a.png'>",
      '',
      [plain('https://example.com/a.png')],
    ],
    [
      'tags that are closed in another order, or were never opened',
      '</b><ul><li><svg><path/></ul></p><img src="https://example.com/a.png"></svg></div>',
      '',
      [plain('https://example.com/a.png')],
    ],
    ['a tag that is never closed', '<div><img src="https://example.com/a.png"', '', []],
    ['a video', '<video src="https://example.com/a.mp4" controls></video>', '', [plain('https://example.com/a.mp4')]],
    ['a video without src', '<video controls></video>', '', []],
    ['a file', `<a href="${FILE}">report.pdf</a>`, '', [plain(FILE)]],
    ['a link that is no file', '<a href="https://github.com/o/r/issues/5">#5</a>', '', []],
    ['a link within the page', '<a href="#user-attachments/files/">x</a><a>y</a>', '', []],
    ['an uploaded picture', `<img src="${SIGNED}" alt="shot">`, `See ![shot](${ASSET})`, [signed('shot')]],
    ['one in angle brackets', `<img src="${SIGNED}">`, `<${ASSET}>`, [signed()]],
    ['one in a list', `<img src="${SIGNED}">`, `${ASSET}, and more`, [signed()]],
    ['one at the end of a list', `<img src="${SIGNED}">`, `${ASSET},,`, [signed()]],
    [
      'one whose URL has commas inside',
      `<img src="${SIGNED}">`,
      `https://example.com/a,,b/${UUID}?c,d,`,
      [{ ...signed(), plain_url: `https://example.com/a,,b/${UUID}?c,d` }],
    ],
    [
      'one that the Markdown has in two URLs: the first',
      `<img src="${SIGNED}">`,
      `${ASSET} ${ASSET}?again`,
      [signed()],
    ],
    [
      'two that the Markdown has in one URL',
      `<img src="${SIGNED}"><img src="https://example.com/${OTHER_UUID}">`,
      `https://example.com/${OTHER_UUID}/${UUID.toUpperCase()}`,
      [{ ...signed(), plain_url: `https://example.com/${OTHER_UUID}/${UUID.toUpperCase()}` }],
    ],
    [
      'one whose UUID begins in the end of another',
      `<img src="${SIGNED}">`,
      `https://example.com/aaaaaaaa-1111-4222-8333-aaaa${UUID}`,
      [{ ...signed(), plain_url: `https://example.com/aaaaaaaa-1111-4222-8333-aaaa${UUID}` }],
    ],
    ['one in an img tag of the Markdown', `<img src="${SIGNED}">`, `<img width="5" src="${ASSET}" />`, [signed()]],
    [
      'one with a UUID in capitals',
      `<img src="${SIGNED.replace(UUID, UUID.toUpperCase())}">`,
      ASSET,
      [{ ...signed(), authenticated_url: SIGNED.replace(UUID, UUID.toUpperCase()) }],
    ],
    [
      'one that the Markdown has under http only',
      `<img src="${SIGNED}">`,
      ASSET.replace('https', 'http'),
      [{ ...signed(), plain_url: SIGNED }],
    ],
    ['one that the Markdown does not have', `<img src="${SIGNED}">`, '', [{ ...signed(), plain_url: SIGNED }]],
    ['an uploaded video', `<video src="${SIGNED}"></video>`, ASSET, [signed()]],
    [
      'the same thing twice',
      `<img src="${SIGNED}" alt="one"><img src="${SIGNED}&again" alt="two">`,
      ASSET,
      [signed('one')],
    ],
    [
      'several, in their order',
      `<a href="${FILE}">f</a><img src="https://example.com/a.png"><video src="https://example.com/b.mp4"></video>`,
      '',
      [plain(FILE), plain('https://example.com/a.png'), plain('https://example.com/b.mp4')],
    ],
  ])('%s', (_, html, body, expected) => {
    expect(attachmentsOf({ body_html: html, body })).toEqual(expected)
  })

  it('an HTML without a body', () => {
    expect(attachmentsOf({ body_html: '<img src="https://example.com/a.png">' })).toEqual([
      plain('https://example.com/a.png'),
    ])
  })
})

describe('hostile texts are gone through once:', () => {
  const MARKDOWN_CHARACTERS = 65_536
  const filled = (text: string, characters: number) => text.repeat(characters / text.length)
  const uuidOf = (n: number) => `${n.toString(16).padStart(8, '0')}-1111-4222-8333-abcdefabcdef`
  const images = (count: number, from: number) =>
    Array.from({ length: count }, (_, n) => `<img src="https://example.com/${uuidOf(from + n)}">`).join('')

  it.each<[string, string, string, number]>([
    // One image alone must not take long, else thousands take hours.
    [
      'a URL of commas that are not its end',
      `<img src="${SIGNED}">`,
      `${ASSET}${filled(',', MARKDOWN_CHARACTERS - 100)}a`,
      1,
    ],
    [
      'one such URL, and thousands of images of it',
      `<img src="${SIGNED}">${images(3, 0)}`.repeat(3_000),
      `${ASSET}${filled(',', 30_000)}a`,
      4,
    ],
    [
      'as many URLs as there is room for, and thousands of images of none of them',
      images(10_000, 1_000_000),
      Array.from({ length: 1_100 }, (_, n) => `https://a.bc/${uuidOf(n)}`).join(' '),
      10_000,
    ],
    [
      'the beginning of a URL, again and again',
      `${filled('<div>', MARKDOWN_CHARACTERS)}<img src="${SIGNED}">${images(3_000, 0)}`,
      filled('https://', MARKDOWN_CHARACTERS),
      3_001,
    ],
    ['one URL of UUIDs, and thousands of images of them', images(1_500, 0), `https://${manyUuids(1_500)}`, 1],
    ['tags in tags', `${filled('<div>', 1_000_000)}<img src="${SIGNED}">`, ASSET, 1],
    [
      'end tags of what is not open',
      `${filled('<div>', 500_000)}${filled('</b>', 500_000)}<img src="${SIGNED}">`,
      ASSET,
      1,
    ],
    ['forms in what is open', `${filled('<div>', 500_000)}${filled('<form>', 600_000)}<img src="${SIGNED}">`, ASSET, 1],
  ])('%s', (_, html, body, count) => {
    let found: ReturnType<typeof attachmentsOf> = []
    const tookMs = processorMs(() => {
      found = attachmentsOf({ body_html: html, body })
    })
    expect(found).toHaveLength(count)
    expect(tookMs).toBeLessThan(1_000)
  })

  function manyUuids(count: number): string {
    return Array.from({ length: count }, (_, n) => uuidOf(n)).join('/')
  }
})

describe('an answer', () => {
  const url = 'https://api.github.com/repos/o/r/issues/5'
  const texts = {
    node_id: 'n',
    url,
    html_url: url,
    created_at: '2026-01-01T00:00:00Z',
    updated_at: '2026-01-01T00:00:00Z',
  }
  const issue = { id: 1, number: 5, ...texts, title: 't', state: 'open', labels: [], comments: 0, locked: false }
  const comment = { id: 1, ...texts, issue_url: url }

  it.each([
    ['an issue', AnsweredIssue, issue],
    ['a comment', AnsweredComment, comment],
  ])('of %s keeps what it has, and is the same when it is read again', (_, schema, given) => {
    const read = schema.parse({
      ...given,
      body: ASSET,
      body_html: `<img src="${SIGNED}">`,
      a_new_key: { of: 'GitHub' },
    })
    expect(read).toMatchObject({ ...given, a_new_key: { of: 'GitHub' }, attachments: [signed()] })
    expect(schema.parse(JSON.parse(JSON.stringify(read)))).toEqual(read)
  })

  it.each([
    ['an issue', AnsweredIssue, issue],
    ['a comment', AnsweredComment, { ...comment, body: null }],
  ])('of %s has the object as GitHub sent it, which neither its JSON nor a copy has', (_, schema, given) => {
    const sent = { ...given, body_html: `<img src="${SIGNED}">`, user: null }
    const read = schema.parse(sent)
    expect(read.original).toBe(sent)
    expect(Object.keys(read.original)).toEqual(Object.keys({ ...given, body_html: '', user: null }))
    expect([JSON.stringify(read).includes('"original"'), 'original' in { ...read }]).toEqual([false, false])
  })

  it.each([null, [], 'text', { ...issue, number: 'five' }])('that does not fit is refused: %j', (sent) => {
    const { error } = AnsweredIssue.safeParse(sent)
    expect(error?.issues[0]?.path).toEqual(
      sent === null || typeof sent !== 'object' || Array.isArray(sent) ? [] : ['number'],
    )
  })

  it('of a comment without body and association has an empty one and NONE', () => {
    const read = AnsweredComment.parse({ ...comment, body: null, user: null })
    expect(read).toMatchObject({ body: '', author_association: 'NONE', user: null, attachments: [] })
  })
})
