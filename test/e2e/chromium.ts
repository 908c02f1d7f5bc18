/** The browser of this machine, which playwright-core drives: it brings none of its own. */
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { Browser } from 'playwright-core'
import { chromium } from 'playwright-core'

export const CHROMIUM_NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'] as const

/** Path of the first that is there; null: none. */
export function findChromium(path = process.env.PATH ?? ''): string | null {
  const folders = path.split(delimiter).filter((folder) => folder !== '')
  const candidates = CHROMIUM_NAMES.flatMap((name) => folders.map((folder) => join(folder, name)))
  return candidates.find(isExecutable) ?? null
}

/** Asks nobody else for anything: no updates, no synchronisation. No sandbox, which a root has not. */
export async function startChromium(): Promise<Browser> {
  const executablePath = findChromium()
  if (executablePath === null)
    throw new Error(`There is no Chromium on PATH (${CHROMIUM_NAMES.join(', ')}): npx tsx scripts/prepare-machine.ts`)
  return chromium.launch({
    executablePath,
    headless: true,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  })
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
