import { Parser } from 'htmlparser2'
import { describe, expect, it } from 'vitest'
import { benchmarkFiles } from '../../scripts/benchmarks-page.ts'
import { PLANTED_ALL, PLANTED_GROWTH } from '../bench/planted-results.ts'

const PAGE = 'docs/benchmarks.md'
const CURVE = 'docs/images/benchmarks/growth-items.svg'

describe('the page of benchmarks', () => {
  const files = benchmarkFiles(PLANTED_ALL, PLANTED_GROWTH)
  const page = files[PAGE] ?? ''

  it('shows each target with its median, its rounds and its goal', () => {
    expect(page).toContain('**1 of 2 targets are met.**')
    expect(page).toContain('| idle | 20.0 ms |  | 20.0 ms | 20.0 to 20.0 | at most 30.0 | yes |')
  })

  it('says first what is missed, and which peer is ahead', () => {
    expect(page).toContain('- **Missed**, webhooks: process: ours / process: peer: 0.95, at least 1.00')
    expect(page).toContain('- **Ahead of ours**, webhooks, process: peer with 100 webhooks/s, ours 80.0 webhooks/s')
    expect(page.indexOf('**Missed**')).toBeLessThan(page.indexOf('## Webhooks'))
  })

  it('shows the repeats of a missed target beside its rounds', () => {
    expect(page).toContain('the rounds (0.700 to 0.900) missed it')
    expect(page).toContain('that median counts: 0.850, 0.950, 0.990.')
  })

  it('puts each peer beside ours, with the ratio', () => {
    expect(page).toContain('| process | median | rounds | ours / it |')
    expect(page).toContain('| peer | 100 webhooks/s | 100 to 100 | 0.80 |')
  })

  it('is the same each time', () => {
    expect(benchmarkFiles(structuredClone(PLANTED_ALL), structuredClone(PLANTED_GROWTH))).toEqual(files)
  })

  it('says so when nothing is kept yet', () => {
    const empty = benchmarkFiles(null, null)
    expect(Object.keys(empty)).toEqual([PAGE])
    expect(empty[PAGE]).toContain('No run of `npm run bench -- all` is kept yet.')
  })

  it('has a picture for each curve, which says in words what it shows', () => {
    expect(Object.keys(files)).toEqual([PAGE, CURVE])
    const words = 'throughput, items/s: 4,000 at 1,000, 3,800 at 100,000 items.'
    expect(page).toContain(`![Items of a run. ${words}`)
    expect(files[CURVE]).toContain(`<desc id="desc">${words}`)
    expect(page).toContain('| 10,000 | 1 | 3,900 | 0.500 |')
  })

  it('draws well-formed SVG, without a colour behind it', () => {
    const svg = files[CURVE] ?? ''
    const open: string[] = []
    const seen: string[] = []
    const parser = new Parser(
      {
        onopentagname: (name) => {
          open.push(name)
          seen.push(name)
        },
        onclosetag: (name, isImplied) => {
          // `<circle/>` closes itself; what is missing its end is closed by implication, at the end of the text.
          if (isImplied && !/^(line|circle|polyline)$/.test(name)) throw new Error(`<${name}> is not closed`)
          expect(open.pop()).toBe(name)
        },
      },
      { xmlMode: true },
    )
    parser.end(svg)
    expect(open).toEqual([])
    expect(seen.filter((name) => name === 'circle')).toHaveLength(6)
    expect(seen.filter((name) => name === 'polyline')).toHaveLength(2)
    expect(svg).toContain('per &lt;item&gt;')
    expect(svg).not.toMatch(/NaN|undefined|Infinity|<rect/)
    expect(svg).toContain('prefers-color-scheme:dark')
  })
})
