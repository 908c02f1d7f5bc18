/** The `Link` header as RFC 8288 has it, and what is none. */
import { describe, expect, it } from 'vitest'
import { linkTo } from '../../src/providers/pagination/link-header.ts'
import { processorMs } from '../support/processor-time.ts'

const A = 'https://api.example.com/a?page=2'
const B = 'https://api.example.com/b?page=3'

describe('the next page is named by', () => {
  it.each([
    ['rel alone', `<${A}>; rel="next"`],
    ['rel without quotes', `<${A}>; rel=next`],
    ['rel behind another parameter', `<${A}>; title="more"; rel="next"`],
    ['rel before another parameter', `<${A}>;rel=next;title=more`],
    ['a parameter without a value before it', `<${A}>; crossorigin; rel=next`],
    ['one relation of several', `<${A}>; rel="prev  next last"`],
    ['a relation in capitals', `<${A}>; REL="Next"`],
    ['white space where it may be', `  <${A}> ;\trel = "next" `],
    ['empty parameters', `<${A}>;; ;rel=next;`],
    ['the second link', `<${B}>; rel="prev", <${A}>; rel="next", <${B}>; rel="last"`],
    ['the first of two', `<${A}>; rel="next", <${B}>; rel="next"`],
    ['a link behind empty elements of the list', `, ,<${A}>; rel="next"`],
    ['a link behind a text that looks like one', `<${B}>; title="<x>; rel="; rel=prev, <${A}>; rel=next`],
    [
      'a link behind a text with an escaped quote',
      String.raw`<${B}>; title="a\"b, <x>; rel=next"; rel=prev, <${A}>; rel=next`,
    ],
    ['an escaped character', String.raw`<${A}>; rel="ne\xt"`],
    ['a quote that is never closed', `<${A}>; rel="next`],
    ['one that ends in a backslash', `<${A}>; rel="next\\`],
    ['a link behind what follows a closing quote', `<${B}>; title="x" y; rel=prev, <${A}>; rel=next`],
  ])('%s', (_, header) => {
    expect(linkTo('next', header)).toBe(A)
  })

  it('a target with commas, semicolons and quotes in it', () => {
    expect(linkTo('next', `<${B}>; rel=prev, <${A},;rel="x">; rel=next`)).toBe(`${A},;rel="x"`)
  })

  it('an empty target', () => {
    expect(linkTo('next', '<>; rel=next')).toBe('')
  })
})

describe('no next page is named by', () => {
  it.each([
    ['nothing', ''],
    ['white space and commas', ' ,\t, '],
    ['another relation', `<${A}>; rel="last"`],
    ['a relation that begins with it', `<${A}>; rel="next-archive"`],
    ['a second rel: the first one holds', `<${A}>; rel="prev"; rel="next"`],
    ['a rel without a value', `<${A}>; rel`],
    ['another parameter of that value', `<${A}>; rev="next"; title=rel`],
    ['a link without parameters', `<${A}>`],
    ['a URL without brackets', `${A}; rel="next"`],
    ['a bracket that is never closed', `<${A}; rel="next"`],
    ['a link behind what is none', `x, <${A}>; rel="next"`],
    ['a text that looks like a link', `<${A}>; title="x, <y>; rel=next"`],
  ])('%s', (_, header) => {
    expect(linkTo('next', header)).toBeNull()
  })
})

it.each(['<', '<a', '<a>', '<a>;', '<a>; rel="', '<a>; rel=prev,', ';', ',', ' ', '\\"', '<a>;x="\\";'])(
  'a header of nothing but %j is read once',
  (text) => {
    const filled = text.repeat(100_000 / text.length)
    let found: unknown[] = []
    const tookMs = processorMs(() => {
      found = [linkTo('next', filled), linkTo('next', `<a>; rel="${filled}`)]
    })
    expect(found).toEqual([null, null])
    expect(tookMs).toBeLessThan(1_000)
  },
)
