// The marks that client/cleave/report/draw.js uses; esbuild leaves the rest of Plot and of d3 out.
export { plot, axisX, axisY, barX, barY, dot, gridX, gridY, lineY, ruleX, ruleY, text } from "@observablehq/plot";
