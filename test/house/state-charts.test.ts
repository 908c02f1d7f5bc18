/** The dashboard draws the charts of docs/states.md. */
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { STATE_CHARTS } from '../../src/api/dashboard/charts/state-charts.ts'

const page = readFileSync(new URL('../../docs/states.md', import.meta.url), 'utf8')

it.each(Object.values(STATE_CHARTS))('$title', ({ title, states, arrows }) => {
  const [, chart = ''] = new RegExp(`## ${title}\\n[\\s\\S]*?\`\`\`mermaid\\n([\\s\\S]*?)\`\`\``).exec(page) ?? []
  const drawn = [...chart.matchAll(/^ {2}(\S+) --> (\S+?)(?:: (.*))?$/gm)].map(([, from = '', to = '', when = '']) =>
    [from, to, when].map((part) => (part === '[*]' ? '*' : part)),
  )
  expect(arrows).toEqual(drawn)
  const named = new Set(arrows.flatMap((arrow) => arrow.slice(0, 2)).filter((state) => state !== '*'))
  expect(Object.keys(states).sort()).toEqual([...named].sort())
})
