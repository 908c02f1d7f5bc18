/** Pictures of the dashboard's pages: light, dark and on a phone. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { signIn } from './site.ts'

export const LOOKS = {
  light: { colorScheme: 'light', viewport: { width: 1_280, height: 800 } },
  dark: { colorScheme: 'dark', viewport: { width: 1_280, height: 800 } },
  phone: { colorScheme: 'light', viewport: { width: 390, height: 844 } },
} as const

/** `/webhooks/4711` → `webhooks-one`, `/webhooks?status=failed` → `webhooks-status`. */
const nameOf = (path: string): string =>
  path
    .slice(1)
    .replace(/\/\d+/, '-one')
    .replace(/\?(\w+).*/, '-$1')
    .replaceAll('/', '-') || 'home'

/**
 * Writes `<page>-<look>.png`. Of two pages of one name, such as two integrations, the first one.
 *
 * @param base what the dashboard's `/operator` stands behind
 * @param options `only`: names of pages; default: all
 */
export async function takePictures(
  browser: Browser,
  base: string,
  paths: readonly string[],
  folder: string,
  { looks = Object.keys(LOOKS) as Look[], only }: { looks?: readonly Look[]; only?: readonly string[] } = {},
): Promise<void> {
  mkdirSync(folder, { recursive: true })
  for (const look of looks) {
    const { context, page } = await signIn(browser, base, 'operate', LOOKS[look])
    // The first visit has the doctor look; the page is told what it found.
    await page.getByText('The doctor looked').waitFor()
    const made = new Set<string>()
    for (const path of paths) {
      const name = nameOf(path)
      if (made.has(name) || only?.includes(name) === false) continue
      made.add(name)
      const answer = await page.goto(`${base}/operator${path}`)
      if (answer?.status() !== 200) console.error(`${path}: ${answer?.status()}`)
      await page.screenshot({ path: join(folder, `${name}-${look}.png`), caret: 'hide', animations: 'disabled' })
    }
    await context.close()
    console.log(`${look}: ${made.size} pictures in ${folder}`)
  }
}

export type Look = keyof typeof LOOKS
