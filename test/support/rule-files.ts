import { createRequire } from 'node:module'

const { forbidden } = createRequire(import.meta.url)('../../.dependency-cruiser.cjs') as {
  forbidden: { name: string; from: { path: string[] } }[]
}

/** Of a path from the repository's root: whether the import rules hold that file to be pure. */
export function isRuleFile(path: string): boolean {
  const rule = forbidden.find(({ name }) => name === 'rules-are-pure')
  return rule?.from.path.some((pattern) => new RegExp(pattern).test(path)) === true
}
