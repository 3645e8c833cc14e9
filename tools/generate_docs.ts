/**
 * Writes docs/configuration.md from the table of settings: `deno run -A tools/generate_docs.ts`.
 * @module
 */
import { configurationMarkdown } from "../lib/config/document.ts";

const target = new URL("../docs/configuration.md", import.meta.url);
await Deno.mkdir(new URL(".", target), { recursive: true });
await Deno.writeTextFile(target, configurationMarkdown());
