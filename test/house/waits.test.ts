/** A test that waits says for how long: vitest's own limit of a second is less than a machine that is busy may take. */
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** The calls of vi.waitFor() and vi.waitUntil() without a time, as `file:line`. */
function waitsWithoutTime(path: string, text: string): string[] {
  if (!/vi\.wait(For|Until)/.test(text)) return []
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true)
  const found: string[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && /^vi\.wait(For|Until)$/.test(node.expression.getText(source))) {
      const [, time] = node.arguments
      const isBounded =
        time !== undefined && !(ts.isObjectLiteralExpression(time) && !time.getText().includes('timeout'))
      if (!isBounded) found.push(`${path}:${source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1}`)
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

async function testFiles(): Promise<{ path: string; text: string }[]> {
  const names = await readdir(`${root}test`, { recursive: true })
  const paths = names.filter((name) => name.endsWith('.ts')).map((name) => `test/${name}`)
  return Promise.all(paths.map(async (path) => ({ path, text: await readFile(`${root}${path}`, 'utf8') })))
}

describe('a wait in a test', () => {
  it('has a time of its own (test/support/soon.ts)', async () => {
    expect((await testFiles()).flatMap(({ path, text }) => waitsWithoutTime(path, text))).toEqual([])
  })

  it.each(['vi.waitFor(() => expect(told).toBe(true))', 'await vi.waitUntil(() => told, { interval: 10 })'])(
    'is found without one: %s',
    (line) => {
      expect(waitsWithoutTime('a.ts', `\n${line}`)).toEqual(['a.ts:2'])
    },
  )
})
