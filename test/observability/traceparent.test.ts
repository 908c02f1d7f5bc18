import { describe, expect, it } from 'vitest'
import { spanContextOf, traceparentOf } from '../../src/observability/spans.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const SPAN = 'b7ad6b7169203331'

describe('a traceparent', () => {
  it.each([
    ['sampled', `00-${TRACE}-${SPAN}-01`, 1],
    ['not sampled', `00-${TRACE}-${SPAN}-00`, 0],
  ])('is read and written: %s', (_, text, traceFlags) => {
    const context = spanContextOf(text)
    expect(context).toEqual({ traceId: TRACE, spanId: SPAN, traceFlags, isRemote: true })
    if (context !== null) expect(traceparentOf(context)).toBe(text)
  })

  it('keeps no flag but the one that says whether it is sampled', () => {
    expect(spanContextOf(`00-${TRACE}-${SPAN}-ff`)?.traceFlags).toBe(1)
  })

  it.each([
    ['nothing', null],
    ['no header', undefined],
    ['an empty text', ''],
    ['another version', `01-${TRACE}-${SPAN}-01`],
    ['a trace of zeros', `00-${'0'.repeat(32)}-${SPAN}-01`],
    ['a span of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
    ['capitals', `00-${TRACE.toUpperCase()}-${SPAN}-01`],
    ['too much', `00-${TRACE}-${SPAN}-01-more`],
    ['another line', `00-${TRACE}-${SPAN}-01\nx: y`],
  ])('is none: %s', (_, text) => {
    expect(spanContextOf(text)).toBeNull()
  })

  it('is not written of a span that nobody records', () => {
    expect(traceparentOf({ traceId: '0'.repeat(32), spanId: '0'.repeat(16), traceFlags: 0 })).toBeNull()
  })
})
