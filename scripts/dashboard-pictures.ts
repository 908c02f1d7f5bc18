/**
 * Pictures of every page of the dashboard, light, dark and on a phone, on rows that the script makes.
 *
 * `tsx scripts/dashboard-pictures.ts [--out docs/images/dashboard] [--only home,webhooks] [--looks light,phone]`
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startChromium } from '../test/e2e/chromium.ts'
import { PATHS } from '../test/e2e/dashboard/paths.ts'
import { startSite } from '../test/e2e/dashboard/site.ts'
import { sharePostgres } from '../test/support/postgres-setup.ts'

const LOOKS = {
  light: { colorScheme: 'light', viewport: { width: 1_280, height: 800 } },
  dark: { colorScheme: 'dark', viewport: { width: 1_280, height: 800 } },
  phone: { colorScheme: 'light', viewport: { width: 390, height: 844 } },
} as const

const { values } = parseArgs({
  options: {
    out: { type: 'string', default: 'docs/images/dashboard' },
    only: { type: 'string' },
    looks: { type: 'string', default: Object.keys(LOOKS).join(',') },
  },
})
const looks = values.looks.split(',') as (keyof typeof LOOKS)[]
const only = values.only?.split(',')

/** `/webhooks/4711` → `webhooks-one`, `/webhooks?status=failed` → `webhooks-status`. */
const nameOf = (path: string): string =>
  path
    .slice(1)
    .replace(/\/\d+/, '-one')
    .replace(/\?(\w+).*/, '-$1')
    .replaceAll('/', '-') || 'home'

const postgres = await sharePostgres()
const site = await startSite({ isHostile: false, adminUrl: postgres.url })
const browser = await startChromium()
try {
  mkdirSync(values.out, { recursive: true })
  for (const look of looks) {
    const { context, page } = await site.visit(browser, 'operate', LOOKS[look])
    // The first visit has the doctor look; the page is told what it found.
    await page.getByText('The doctor looked').waitFor()
    const made = new Set<string>()
    for (const path of PATHS.map((of) => of(site.rows))) {
      const name = nameOf(path)
      if (made.has(name) || (only !== undefined && !only.includes(name))) continue
      made.add(name)
      const answer = await page.goto(site.root + path)
      if (answer?.status() !== 200) console.error(`${path}: ${answer?.status()}`)
      await page.screenshot({ path: join(values.out, `${name}-${look}.png`), caret: 'hide', animations: 'disabled' })
    }
    await context.close()
    console.log(`${look}: ${made.size} pictures in ${values.out}`)
  }
} finally {
  await browser.close()
  await site.close()
  await postgres.release()
}
process.exit(0)
