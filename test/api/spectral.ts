/** What Spectral (https://docs.stoplight.io/docs/spectral) says against an OpenAPI document, by its own rules and those of OWASP. */
import { readFileSync } from 'node:fs'
import type { RulesetDefinition } from '@stoplight/spectral-core'
import spectral from '@stoplight/spectral-core'
import owasp from '@stoplight/spectral-owasp-ruleset'
import rulesets from '@stoplight/spectral-rulesets'
import { parse } from 'yaml'

const RULES = new URL('../../.spectral.yaml', import.meta.url)

/** A line each: broken rules that are not off, and rules that are off though nothing breaks them. */
export async function brokenRules(document: Record<string, unknown>): Promise<string[]> {
  const off = Object.keys((parse(readFileSync(RULES, 'utf8')) as { rules: Record<string, 'off'> }).rules)
  const linter = new spectral.Spectral()
  linter.setRuleset({ extends: [rulesets.oas, owasp] } as RulesetDefinition)
  const found = await linter.run(document)
  return [
    ...found
      .filter(({ code }) => !off.includes(String(code)))
      .map(({ code, path, message }) => `${code} at ${path.join('.')}: ${message}`),
    ...off.filter((rule) => !found.some(({ code }) => code === rule)).map((rule) => `${rule} is off for nothing`),
  ]
}
