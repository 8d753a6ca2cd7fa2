//! What multiplies is limited: each product of lists, by itself and with the others.

mod amplification;
mod budget;
mod cases;
mod hostile;
mod legitimate;
mod measured;
mod patches;
mod ports;
